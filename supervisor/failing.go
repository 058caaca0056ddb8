package supervisor

import "time"

// calm is for how long a breaker must have been closed until its plugin counts as mended: longer than the longest open time by default, so that a plugin that is tried, closed and opened
// again and again is one that has been failing all the while.
const calm = 10 * time.Minute

// failing is since when a plugin has been failing. The zero value is one that never did.
type failing struct {
	// since is its first failure after it was last well for a while; times is how often its breaker opened from then on.
	since time.Time
	times int
}

// opened returns what holds when the breaker opens: first is the first failure of the series that opened it, closed when the breaker was closed before; zero: never, or it was not open.
func (f failing) opened(first, closed time.Time) failing {
	if f.times > 0 && !closed.IsZero() && first.Sub(closed) < calm {
		return failing{f.since, f.times + 1}
	}
	return failing{first, 1}
}

// Failing returns since when the plugin has been failing, which is its first failure after it was last well for ten minutes; false for one that does not: its breaker is closed, and has been
// for that long. It holds for a nil Opening.
func (o *Opening) Failing(now time.Time) (time.Time, bool) {
	if o == nil || !o.Closed.IsZero() && now.Sub(o.Closed) >= calm {
		return time.Time{}, false
	}
	if o.FailingSince.IsZero() {
		return o.At, true
	}
	return o.FailingSince, true
}

// Flaps reports whether the plugin is failing, and its breaker was closed for a while too short to count.
func (o *Opening) Flaps(now time.Time) bool {
	_, fails := o.Failing(now)
	return fails && o.Times > 1
}
