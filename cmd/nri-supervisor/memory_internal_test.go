package main

import (
	"testing"
	"time"
)

func TestASmallHeapMayGrowFreelyAndALargeOneAsGoDoesIt(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 8 << 20: 300, 12 << 20: 200, 24 << 20: 100, 1 << 30: 100} {
		var k heapKeeper
		if got, _ := k.look(heapState{live: live}, 0, time.Time{}); got != want {
			t.Errorf("%d bytes live: %d %%, want %d", live, got, want)
		}
	}
}

func TestMemoryIsGivenBackOnceInAQuietMoment(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	var k heapKeeper
	for i, step := range []struct {
		name   string
		heap   heapState
		packed uint64
		want   bool
	}{
		{"a large state arrives", heapState{live: 10 * mib, held: 200 * mib, allocated: 300 * mib}, 0, false},
		{"it has been taken in", heapState{live: 60 * mib, held: 200 * mib, allocated: 300*mib + mib/4}, 0, true},
		{"what is left is no garbage", heapState{live: 60 * mib, held: 63 * mib, allocated: 301 * mib}, 0, false},
		{"events go on", heapState{live: 60 * mib, held: 90 * mib, allocated: 330 * mib}, 0, false},
		{"they end", heapState{live: 60 * mib, held: 90 * mib, allocated: 330*mib + 1}, 0, true},
		{"nothing happens", heapState{live: 60 * mib, held: 62 * mib, allocated: 330*mib + 2}, 0, false},
		{"what is known is packed, which the collector has not seen", heapState{live: 60 * mib, held: 62 * mib, allocated: 345*mib + 3}, 14 * mib, true},
	} {
		if _, got := k.look(step.heap, step.packed, time.Time{}.Add(time.Duration(i+1)*time.Second)); got != step.want {
			t.Errorf("step %d, %s: given back %t, want %t", i, step.name, got, step.want)
		}
	}
}

func TestMemoryIsGivenBackAllTheSameOnANodeThatIsNeverQuiet(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	var k heapKeeper
	begin := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var given []time.Duration
	for at := time.Duration(0); at <= 25*time.Minute; at += memoryEvery { // a mebibyte is allocated in each second
		if _, back := k.look(heapState{live: 10 * mib, held: 200 * mib, allocated: uint64(at/time.Second+1) * mib}, 0, begin.Add(at)); back {
			given = append(given, at)
		}
	}
	if len(given) != 2 || given[0] != restless || given[1] != 2*restless {
		t.Errorf("given back after %v, want after 10 and 20 minutes", given)
	}
	if _, back := k.look(heapState{live: 10 * mib, held: 12 * mib, allocated: 9000 * mib}, 0, begin.Add(time.Hour)); back {
		t.Error("given back although there is nothing to give")
	}
	k = heapKeeper{}
	for at := time.Duration(0); at <= 25*time.Minute; at += memoryEvery {
		allocated := uint64(at/time.Second+1) * mib
		if at%(9*time.Minute) == 0 {
			allocated -= mib - 1 // a quiet moment, with nothing new to give back
			k.given = allocated
		}
		if _, back := k.look(heapState{live: 10 * mib, held: 200 * mib, allocated: allocated}, 0, begin.Add(at)); back {
			t.Errorf("given back after %s, less than ten minutes after a quiet moment", at)
		}
	}
}

func TestTheHeapsFiguresAreThere(t *testing.T) {
	t.Parallel()
	if h := readHeap(); h.held == 0 || h.allocated == 0 {
		t.Errorf("got %+v", h)
	}
}
