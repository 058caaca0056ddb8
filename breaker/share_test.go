package breaker_test

import (
	"math"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

func TestShare(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		name               string
		remaining, timeout time.Duration
		later              int
		want               time.Duration
	}{
		{"a lone plugin gets its timeout", 1800 * ms, 500 * ms, 0, 500 * ms},
		{"a lone plugin gets no more than remains", 300 * ms, 500 * ms, 0, 300 * ms},
		{"later plugins keep 10 ms each", 300 * ms, 500 * ms, 5, 250 * ms},
		{"reserves that leave enough do not shorten the timeout", 1800 * ms, 500 * ms, 100, 500 * ms},
		{"a plugin gets 20 ms before later ones get their reserve", 100 * ms, 500 * ms, 9, 20 * ms},
		{"a plugin gets 20 ms when the reserves exceed the rest", 100 * ms, 500 * ms, 1000, 20 * ms},
		{"a timeout under 20 ms stays", 100 * ms, 5 * ms, 1000, 5 * ms},
		{"the last 15 ms are all there is", 15 * ms, 500 * ms, 3, 15 * ms},
		{"a rest that is not a multiple of the reserve", 55 * ms, 500 * ms, 3, 25 * ms},
		{"nothing remains", 0, 500 * ms, 0, 0},
		{"the deadline has passed", -time.Second, 500 * ms, 2, 0},
		{"no timeout is no time", time.Second, 0, 0, 0},
		{"a negative timeout is no time", time.Second, -time.Second, 0, 0},
		{"a negative number of later plugins is none", time.Second, 500 * ms, -7, 500 * ms},
		{"any number of later plugins", time.Second, 500 * ms, math.MaxInt, 20 * ms},
		{"the lowest number of later plugins", time.Second, 500 * ms, math.MinInt, 500 * ms},
		{"any time", math.MaxInt64, math.MaxInt64, 1, math.MaxInt64 - 10*ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := breaker.Share(c.remaining, c.timeout, c.later); got != c.want {
				t.Errorf("Share(%v, %v, %d) = %v, want %v", c.remaining, c.timeout, c.later, got, c.want)
			}
		})
	}
}

func TestAChainOfSharesNeverExceedsTheBudget(t *testing.T) {
	t.Parallel()
	for plugins := 1; plugins <= 200; plugins++ {
		for _, budget := range []time.Duration{0, 7 * time.Millisecond, 90 * time.Millisecond, 1800 * time.Millisecond} {
			remaining := budget
			for i := range plugins { // each one uses all that it gets
				share := breaker.Share(remaining, 500*time.Millisecond, plugins-i-1)
				if share < 0 || share > remaining {
					t.Fatalf("plugin %d of %d got %v of %v", i, plugins, share, remaining)
				}
				if i < 3 && plugins <= 100 && budget == 1800*time.Millisecond && share < 20*time.Millisecond {
					t.Fatalf("plugin %d of %d got %v of %v", i, plugins, share, remaining)
				}
				remaining -= share
			}
		}
	}
}
