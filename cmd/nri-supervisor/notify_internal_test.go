package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

func TestTheWatchdogIsFedOnlyWhileTheProbeComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var stuck atomic.Bool
		var fed atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			watch(ctx, 30*time.Second, func() (bool, string) { return !stuck.Load(), "stuck" }, func(string) { fed.Add(1) }, zap.NewNop())
		}()
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if n := fed.Load(); n != 3 {
			t.Errorf("fed %d times in 25 s, want at 0, 10 and 20 s", n)
		}
		stuck.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := fed.Load(); n != 3 {
			t.Errorf("fed %d times more while it was stuck", n-3)
		}
		cancel()
		<-done
	})
}

func TestSystemdIsToldOfAReloadOnceTheServiceIsReady(t *testing.T) {
	t.Parallel()
	var said []string
	n := &notifier{send: func(s string) { said = append(said, s) }}
	n.reloading()()
	if len(said) != 0 {
		t.Errorf("said %q before it was ready", said)
	}
	n.tell("registered", true)
	said = nil
	first := n.reloading()
	second := n.reloading()
	first()
	if len(said) != 2 {
		t.Errorf("said %q while another reload is under way", said)
	}
	second()
	if len(said) != 3 || said[2] != "READY=1" {
		t.Fatalf("said %q", said)
	}
	last := int64(0)
	for _, s := range said[:2] {
		var at int64
		if _, err := fmt.Sscanf(s, "RELOADING=1\nMONOTONIC_USEC=%d\n", &at); err != nil || at < last || at <= 0 {
			t.Errorf("said %q after %d: %v", s, last, err)
		}
		last = at
	}
}

func TestSystemdHearsOfWhatMattersAndIsToldReadyOnce(t *testing.T) {
	t.Parallel()
	var said []string
	n := &notifier{send: func(s string) { said = append(said, s) }}
	passed := 0
	sink := n.sink(func(supervisor.Event) { passed++ })
	for _, ev := range []supervisor.Event{
		supervisor.Started{},
		supervisor.RuntimeUnavailable{Reason: "missing", Err: "no\nsuch file"},
		supervisor.RuntimeConnected{Runtime: "containerd", Version: "v2", Pods: 3},
		supervisor.RuntimeLost{},
		supervisor.Stopping{},
	} {
		sink(ev)
	}
	want := []string{
		"READY=1\nSTATUS=runtime missing: no such file", "STATUS=registered with containerd v2, 3 pods", "STATUS=runtime lost", "STOPPING=1\nSTATUS=stopping",
	}
	if !slices.Equal(said, want) || passed != 5 {
		t.Errorf("said %q, passed on %d events", said, passed)
	}
}
