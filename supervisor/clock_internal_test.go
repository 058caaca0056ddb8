package supervisor

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// TestAClockThatWasSetDoesNotChangeHowLongWhatWasKeptLasts: between two runs, by a day in each direction. Within a run everything goes by the time that passes.
func TestAClockThatWasSetDoesNotChangeHowLongWhatWasKeptLasts(t *testing.T) {
	t.Parallel()
	const day, length = 24 * time.Hour, 10 * time.Minute
	for name, tt := range map[string]struct {
		set   time.Duration // the clock, between the two runs, from where it would be
		lasts bool
	}{
		"not set":     {0, true},
		"set back":    {-day, true},
		"set forward": {day, false}, // it is over by that clock, and nothing says that it is wrong
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := time.Now().Add(length - tt.set).Round(0)
			pods, err := json.Marshal(quarantines{Pods: []breaker.QuarantinedPod{{Pod: "u-1", Strikes: 3, Until: end}}})
			if err != nil {
				t.Fatal(err)
			}
			f := begin(t, load(t, [2]string{"p", sel("x")}), nil, state.Loaded{Values: map[string][]byte{
				keyBypass: []byte(end.Format(time.RFC3339Nano) + " " + length.String()), keyQuarantine + "p": pods,
			}}, makers{"p": one(&fakePlugin{})})
			if f.s.bypassed() != tt.lasts {
				t.Errorf("bypassed: %v", f.s.bypassed())
			}
			if left := time.Until(time.Unix(0, f.s.bypassUntil.Load())); left > length {
				t.Errorf("bypassed for another %s, want at most %s", left, length)
			}
			f.eventually("the first line", func() bool { return len(f.events(func(e Event) bool { _, ok := e.(Started); return ok })) > 0 })
			if tt.lasts {
				f.eventually("a warning of the bypass", func() bool { return len(f.events(func(e Event) bool { _, ok := e.(BypassGoesOn); return ok })) == 1 })
			}
			kept := f.s.plan().byName["p"].guard.Snapshot().Quarantined
			if (len(kept) == 1) != tt.lasts {
				t.Fatalf("quarantined: %v", kept)
			}
			for _, q := range kept {
				if left := time.Until(q.Until); left > length {
					t.Errorf("quarantined for another %s, want at most %s", left, length)
				}
				if !strings.Contains(q.Until.String(), " m=") { // without a reading of the clock that nobody sets
					t.Error("the end of the quarantine goes by the clock that somebody may set")
				}
			}
		})
	}
}
