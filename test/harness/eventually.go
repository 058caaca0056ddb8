package harness

import (
	"testing"
	"time"
)

// Eventually waits until the condition holds, for things outside the test's process that give no signal: files, metrics, /proc. It fails the test after 30 s.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	limit := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(limit) {
			tb.Fatalf("%s: not in 30 s", what)
		}
		<-tick.C
	}
}
