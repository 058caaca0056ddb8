package main

import "testing"

func TestASmallHeapMayGrowFreelyAndALargeOneAsGoDoesIt(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 8 << 20: 300, 12 << 20: 200, 24 << 20: 100, 1 << 30: 100} {
		var k heapKeeper
		if got, _ := k.look(heapState{live: live}); got != want {
			t.Errorf("%d bytes live: %d %%, want %d", live, got, want)
		}
	}
}

func TestMemoryIsGivenBackOnceInAQuietMoment(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	var k heapKeeper
	for i, step := range []struct {
		name string
		heap heapState
		want bool
	}{
		{"a large state arrives", heapState{live: 10 * mib, held: 200 * mib, allocated: 300 * mib}, false},
		{"it has been taken in", heapState{live: 60 * mib, held: 200 * mib, allocated: 300*mib + mib/2}, true},
		{"what is left is no garbage", heapState{live: 60 * mib, held: 75 * mib, allocated: 301 * mib}, false},
		{"events go on", heapState{live: 60 * mib, held: 90 * mib, allocated: 330 * mib}, false},
		{"they end", heapState{live: 60 * mib, held: 90 * mib, allocated: 330*mib + 1}, true},
		{"nothing happens", heapState{live: 60 * mib, held: 62 * mib, allocated: 330*mib + 2}, false},
	} {
		if _, got := k.look(step.heap); got != step.want {
			t.Errorf("step %d, %s: given back %t, want %t", i, step.name, got, step.want)
		}
	}
}

func TestTheHeapsFiguresAreThere(t *testing.T) {
	t.Parallel()
	if h := readHeap(); h.held == 0 || h.allocated == 0 {
		t.Errorf("got %+v", h)
	}
}
