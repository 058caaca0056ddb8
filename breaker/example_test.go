package breaker_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// A caller asks for each event, and tells how the call ended.
func Example() {
	guard := breaker.New(breaker.DefaultConfig(), nil, func(tr breaker.Transition) {
		fmt.Printf("breaker: %v -> %v (%v)\n", tr.From, tr.To, tr.Cause)
	})
	create := func(pod string, plugin func() error) {
		ticket, reason := guard.AdmitCall(breaker.Call{Pod: pod, Work: "CreateContainer/main"})
		if reason != breaker.ReasonNone {
			fmt.Printf("%s: no call: %v\n", pod, reason)
			return
		}
		ticket.Sent()
		err := plugin()
		ticket.Returned()
		if err != nil {
			ticket.End(breaker.OutcomeError)
		} else {
			ticket.End(breaker.OutcomeSuccess)
		}
	}
	broken := func() error { return errors.New("no such device") }

	for range 3 {
		create("retried-pod", broken) // counts once, and three times make a quarantine
	}
	create("retried-pod", broken)
	create("second-pod", broken)
	create("third-pod", broken)
	create("fourth-pod", broken)
	guard.Reset()
	// Output:
	// retried-pod: no call: quarantined
	// breaker: closed -> open (consecutive_failures)
	// fourth-pod: no call: breaker_open
	// breaker: open -> closed (manual)
}

func BenchmarkGuard(b *testing.B) {
	b.Run("a call that is admitted, ended and returned", func(b *testing.B) {
		g := breaker.New(breaker.DefaultConfig(), nil, nil)
		b.ReportAllocs()
		for b.Loop() {
			ticket, _ := g.Admit("p")
			ticket.Sent()
			ticket.End(breaker.OutcomeSuccess)
			ticket.Returned()
		}
	})
	b.Run("a call that an open breaker refuses", func(b *testing.B) {
		g := breaker.New(breaker.DefaultConfig(), nil, nil)
		g.Trip()
		b.ReportAllocs()
		for b.Loop() {
			g.Admit("p")
		}
	})
}
