package supervisor

import "time"

// calm is for how long a plugin must have answered well, behind a closed breaker, what it failed at until it counts as mended: longer than the longest open time by default, so that a plugin that
// is tried, closed and opened again and again is one that has been failing all the while.
const calm = 10 * time.Minute

// failing is since when a plugin has been failing. The zero value is one that never did.
type failing struct {
	// since is its first failure after it was last well for a while; times is how often its breaker opened from then on.
	since time.Time
	times int
}

// opened returns what holds when the breaker opens: first is the first failure of the series that opened it.
func (f failing) opened(first time.Time) failing {
	if f.times > 0 {
		return failing{f.since, f.times + 1}
	}
	return failing{first, 1}
}

// Failing returns since when the plugin has been failing, which is its first failure after it was last well for ten minutes; false for one that does not: its breaker is closed, and every event
// that failed has been answered well since, for that long without a failure. It holds for a nil Opening.
func (o *Opening) Failing(now time.Time) (time.Time, bool) {
	if o == nil || !o.Closed.IsZero() && !o.GoodSince.IsZero() && now.Sub(o.GoodSince) >= calm {
		return time.Time{}, false
	}
	if o.FailingSince.IsZero() {
		return o.At, true
	}
	return o.FailingSince, true
}

// Flaps reports whether the plugin is failing and its breaker was closed for a while too short to count: it opened again, or was closed and the plugin failed once more.
func (o *Opening) Flaps(now time.Time) bool {
	_, fails := o.Failing(now)
	return fails && (o.Times > 1 || !o.Closed.IsZero() && o.FailedAt.After(o.Closed))
}

// run is what one event came to lately, or what happened outside of events.
type run struct {
	first, last *Failure  // of the series under way
	good        time.Time // the first good call after last; zero: none came
	over        bool      // the breaker was closed after good: the next failure begins a new series
}

// well reports whether it has been good for a while.
func (r *run) well(now time.Time) bool { return !r.good.IsZero() && now.Sub(r.good) >= calm }

// mend takes note that it is good.
func (r *run) mend(at time.Time) {
	if r != nil && r.good.IsZero() {
		r.good = at
	}
}
