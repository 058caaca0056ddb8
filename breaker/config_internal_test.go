package breaker

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConfigIsMadeSafe(t *testing.T) {
	t.Parallel()
	// What a rule that is off and a value without "off" become.
	off := DefaultConfig()
	off.ConsecutiveFailures, off.FailureRatio, off.QuarantineAfter = 0, 0, 0

	for _, c := range []struct {
		name     string
		in, want Config
	}{
		{"the defaults stay", DefaultConfig(), DefaultConfig()},
		{"zero switches off or stands for the default", Config{}, off},
		{"negative values are like zero", Config{
			FailureRatio: -1, RatioWindow: -1, SlowCall: -1, SlowRatio: -1, OpenDuration: -1, MaxOpenDuration: -1,
			ProbeDeadline: -1, LaneRatio: -1, LaneBurst: -1, QuarantineAfter: -1, QuarantineDuration: -1,
		}, off},
		{"what is not a number is like zero", Config{FailureRatio: math.NaN(), SlowRatio: math.NaN(), LaneRatio: math.NaN()}, off},
		{"the maximum wins and a lane share is one node at most", Config{
			ConsecutiveFailures: 1, FailureRatio: 2, RatioMinimumCalls: 1, RatioWindow: 1, SlowCall: 1, SlowRatio: 2, SlowMinimumCalls: 1,
			OpenDuration: time.Hour, MaxOpenDuration: 1, ProbeDeadline: 1, LaneRatio: math.Inf(1), LaneBurst: 1,
			QuarantineAfter: 1, QuarantineDuration: 1,
		}, Config{
			ConsecutiveFailures: 1, FailureRatio: 2, RatioMinimumCalls: 1, RatioWindow: 1, SlowCall: 1, SlowRatio: 2, SlowMinimumCalls: 1,
			OpenDuration: 1, MaxOpenDuration: 1, ProbeDeadline: 1, LaneRatio: 1, LaneBurst: 1,
			QuarantineAfter: 1, QuarantineDuration: 1,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.in.normalized()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
