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

// unchanging processors stay as many as they are.
func unchanging() *processors {
	return &processors{set: func(bool) {}, after: func(time.Duration, func()) stopper { return &clockless{} }}
}

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
	p.changes.Wait()
	p.compute()
	p.close()
	if want := []bool{true, false}; !slices.Equal(set, want) {
		t.Errorf("changes to one processor: %v, want %v", set, want)
	}
}

// TestWhoComputesDoesNotWaitForAChangeOfTheirNumber: the change waits for a collection of garbage.
func TestWhoComputesDoesNotWaitForAChangeOfTheirNumber(t *testing.T) {
	t.Parallel()
	collected, changes := make(chan struct{}), make(chan bool, 5)
	begun := make(chan struct{}, 5)
	var fire func()
	p := &processors{set: func(one bool) { begun <- struct{}{}; <-collected; changes <- one }, after: func(_ time.Duration, f func()) stopper {
		fire = f
		return &clockless{}
	}}
	p.compute()()
	fire() // to one, which waits
	<-begun
	p.compute()() // no more
	fire()        // and so it is right
	p.compute()   // nor that
	close(collected)
	p.close()
	close(changes)
	last, n := true, 0
	for one := range changes {
		last, n = one, n+1
	}
	if last || n != 2 {
		t.Errorf("%d changes, the last to one processor: %t, want 2, to one and back", n, last)
	}
}
