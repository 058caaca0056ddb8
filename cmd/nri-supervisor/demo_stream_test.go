package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

func TestTheSameSeedMakesTheSameStreamAndAnotherSeedAnother(t *testing.T) {
	t.Parallel()
	opts := cmp.AllowUnexported(demoPod{})
	if d := cmp.Diff(demoStream(7, 300, 50), demoStream(7, 300, 50), opts); d != "" {
		t.Errorf("two streams of one seed differ:\n%s", d)
	}
	if cmp.Equal(demoStream(7, 300, 50), demoStream(8, 300, 50), opts) {
		t.Error("two seeds make the same stream")
	}
}

func TestMostOfTheStreamIsNoBusinessOfTheBrokenPlugins(t *testing.T) {
	t.Parallel()
	for _, n := range []int{demoLeast, 301, 1234} {
		pods := demoStream(1, n, 50)
		if len(pods) != n {
			t.Fatalf("%d pods, want %d", len(pods), n)
		}
		unselected, stays := 0, 0
		selected := map[string]int{}
		shared := 0
		ids := map[string]bool{}
		for i, p := range pods {
			if p.Number != i {
				t.Fatalf("pod %d has number %d", i, p.Number)
			}
			ids[p.id()] = true
			if unselectedDemo(p) {
				unselected++
			} else if demoGPU().selects(p) {
				shared++
			}
			for _, pl := range demoPlugins() {
				if pl.selects(p) {
					selected[pl.name]++
				}
			}
			if p.Life == 0 {
				stays++
			}
		}
		if len(ids) != n {
			t.Errorf("%d ids for %d pods", len(ids), n)
		}
		if unselected < n*79/100 || unselected > n*82/100 {
			t.Errorf("%d of %d pods are selected by no broken plugin, want four of five", unselected, n)
		}
		for _, pl := range demoPlugins() {
			if selected[pl.name] < n*9/100 {
				t.Errorf("%s selects %d of %d pods, want a tenth at least", pl.name, selected[pl.name], n)
			}
		}
		if shared == 0 {
			t.Error("no pod is selected by gpu-env and a broken plugin")
		}
		if stays == 0 || stays == n {
			t.Errorf("%d of %d containers stay", stays, n)
		}
	}
}

func TestPodsArriveInOrderWithinTheTimeThatTheRateGives(t *testing.T) {
	t.Parallel()
	pods := demoStream(3, 300, 50)
	if !slices.IsSortedFunc(pods, func(a, b demoPod) int { return int(a.after - b.after) }) {
		t.Error("arrivals are not in order")
	}
	if last := pods[len(pods)-1].after; last > 6*time.Second || last < 5*time.Second {
		t.Errorf("the last of 300 pods at 50 a second arrives after %s, want about 6s", last)
	}
}

func TestAContainerIsTheSameEachTimeItIsMade(t *testing.T) {
	t.Parallel()
	p := demoStream(1, 300, 50)[0]
	if !proto.Equal(p.container(), p.container()) || !proto.Equal(p.sandbox(), p.sandbox()) {
		t.Error("two containers of one pod differ")
	}
}
