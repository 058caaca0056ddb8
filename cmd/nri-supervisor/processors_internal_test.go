package main

import (
	"slices"
	"testing"
	"time"
)

// clockless is a timer that the test fires.
type clockless struct {
	fire    func()
	stopped bool
}

func (c *clockless) Stop() bool { c.stopped = true; return true }

func TestEventsHaveOneProcessorAndWhatComputesHasAll(t *testing.T) {
	t.Parallel()
	var set []bool
	var timers []*clockless
	p := &processors{set: func(one bool) { set = append(set, one) }, after: func(_ time.Duration, f func()) stopper {
		timers = append(timers, &clockless{fire: f})
		return timers[len(timers)-1]
	}}
	first, second := p.compute(), p.compute()
	first()
	first() // counts once
	if len(timers) != 0 {
		t.Fatal("the time runs although somebody computes")
	}
	second()
	if len(timers) != 1 || len(set) != 0 {
		t.Fatalf("%d timers and changes %v after the last one, want 1 and none", len(timers), set)
	}
	third := p.compute()
	timers[0].fire() // it ran out while it was stopped
	if !timers[0].stopped || len(set) != 0 {
		t.Fatalf("the timer is stopped: %t, changes: %v, while somebody computes", timers[0].stopped, set)
	}
	third()
	timers[0].fire() // of before
	timers[1].fire()
	p.compute()
	if want := []bool{true, false}; !slices.Equal(set, want) {
		t.Errorf("changes to one processor: %v, want %v", set, want)
	}
}
