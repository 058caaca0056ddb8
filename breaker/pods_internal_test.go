package breaker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestPodsAreBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPods()
		cfg := Config{QuarantineAfter: 1}.normalized()
		want := func(n int) {
			t.Helper()
			if len(p.entries) != n || p.recent.Len() != n {
				t.Fatalf("%d pods are known and %d are in the list, want %d", len(p.entries), p.recent.Len(), n)
			}
		}
		strikeAll := func(n int) {
			for i := range n {
				p.strike(fmt.Sprintf("pod-%d", i), nil, true, &cfg, time.Now())
			}
		}
		strikeAll(maxPods)
		want(maxPods)
		strikeAll(maxPods + 100)
		want(maxPods)

		time.Sleep(cfg.QuarantineDuration + strikeMemory) // everything known is too old
		strikeAll(50)
		for i := range maxPods + 100 {
			p.quarantined(fmt.Sprintf("pod-%d", i), &cfg, time.Now())
		}
		want(50)
		if n := p.clear("pod-7", time.Now()); n != 1 {
			t.Errorf("cleared %d quarantines, want 1", n)
		}
		want(49)

		ticket := &Ticket{call: Call{Pod: "soft", Work: "w"}}
		p.strike("soft", ticket, false, &Config{}, time.Now())
		want(50)
		p.forgive("soft", "v", &cfg, time.Now())
		want(50)
		p.forgive("soft", "w", &cfg, time.Now())
		want(49) // nothing is left to remember
		p.forgive("pod-8", "", &cfg, time.Now())
		want(49)
		p.clear("", time.Now())
		want(0)
	})
}
