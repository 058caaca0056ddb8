package supervisor

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestASeriesOfRefusalsBeginsAnewInServiceAndAfterTenMinutesWithoutOne: what is shown as since when is no old story.
func TestASeriesOfRefusalsBeginsAnewInServiceAndAfterTenMinutesWithoutOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		begin := time.Now()
		at := func(d time.Duration) { time.Sleep(time.Until(begin.Add(d))) }
		first := func(want time.Duration) {
			t.Helper()
			if _, by, _ := r.sum(); len(by) != 1 || !by[0].First.Equal(begin.Add(want)) {
				t.Errorf("after %s: %+v, want the first after %s", time.Since(begin), by, want)
			}
		}
		r.add("timeout")
		at(9 * time.Minute)
		r.add("timeout")
		at(18 * time.Minute)
		r.add("timeout")
		first(0)
		at(28 * time.Minute)
		r.add("timeout")
		first(28 * time.Minute)
		r.renew()
		if _, by, _ := r.sum(); !by[0].First.IsZero() || by[0].Count != 4 {
			t.Errorf("in service anew: %+v, want 4 and no first one", by)
		}
		at(29 * time.Minute)
		r.add("timeout")
		first(29 * time.Minute)
	})
}
