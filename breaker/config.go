package breaker

import "time"

// Config holds the rules of one guard. Counts, ratios and times that are zero
// or negative switch their rule off, except where a default is named: those
// values have no sensible "off". A Config is a plain value and safe to copy.
type Config struct {
	// ConsecutiveFailures opens the breaker after that many bad calls of one event without
	// a good one in between. 0 = off.
	ConsecutiveFailures uint32

	// FailureRatio opens the breaker when bad/(good+bad) in the window is at
	// least this, from 0 to 1. 0 = off.
	FailureRatio float64
	// RatioMinimumCalls is how many good and bad calls the window must hold
	// before FailureRatio is looked at. 0 = 10.
	RatioMinimumCalls uint32
	// RatioWindow is the length of the rolling window of FailureRatio and
	// SlowRatio, kept in ten steps. 0 = 30 s.
	RatioWindow time.Duration

	// SlowCall is from which duration on a counted call is slow. 0 = off.
	SlowCall time.Duration
	// SlowRatio opens the breaker when slow/(good+bad) in the window is at
	// least this, from 0 to 1. 0 = 1.
	SlowRatio float64
	// SlowMinimumCalls is how many good and bad calls the window must hold
	// before SlowRatio is looked at. 0 = 10.
	SlowMinimumCalls uint32

	// OpenDuration is how long the breaker stays open the first time. It
	// doubles at each further opening, ±20 %, until 10 good calls have been
	// seen since the last opening. 0 = 5 s.
	OpenDuration time.Duration
	// MaxOpenDuration bounds the open time, jitter included. 0 = 5 min. When
	// it is shorter than OpenDuration it wins.
	MaxOpenDuration time.Duration
	// ProbeDeadline is after which time a half-open breaker stops waiting for
	// a probe that nobody ended. It is a net below the caller's own timeout,
	// so make it longer than any timeout of the plugin. 0 = 30 s, the
	// longest default timeout of a request (Synchronize).
	ProbeDeadline time.Duration

	// LaneRatio is the share of the node's time for which this plugin may keep
	// events waiting, from 0 to 1. 0 = off.
	LaneRatio float64
	// LaneBurst is how much waiting time can be saved up. 0 = 300 ms.
	LaneBurst time.Duration

	// QuarantineAfter is how often a pod may crash, hang or fail the plugin
	// before the pod is quarantined. 0 = off.
	QuarantineAfter int
	// QuarantineDuration is how long a quarantine lasts. 0 = 10 min.
	QuarantineDuration time.Duration
}

// DefaultConfig returns the defaults of a plugin's manifest: breaker, laneShare
// and quarantine in the configuration reference.
func DefaultConfig() Config {
	return Config{
		ConsecutiveFailures: 3,
		FailureRatio:        0.5,
		RatioMinimumCalls:   10,
		RatioWindow:         30 * time.Second,
		SlowCall:            0,
		SlowRatio:           1,
		SlowMinimumCalls:    10,
		OpenDuration:        5 * time.Second,
		MaxOpenDuration:     5 * time.Minute,
		ProbeDeadline:       30 * time.Second,
		LaneRatio:           0,
		LaneBurst:           300 * time.Millisecond,
		QuarantineAfter:     3,
		QuarantineDuration:  10 * time.Minute,
	}
}

// normalized returns c with its defaults filled in and nonsense switched off,
// so that the rest of the package compares without asking twice. The negated
// comparisons also catch NaN.
func (c Config) normalized() Config {
	d := DefaultConfig()
	if !(c.FailureRatio > 0) {
		c.FailureRatio = 0
	}
	if c.RatioMinimumCalls == 0 {
		c.RatioMinimumCalls = d.RatioMinimumCalls
	}
	if c.RatioWindow <= 0 {
		c.RatioWindow = d.RatioWindow
	}
	c.SlowCall = max(c.SlowCall, 0)
	if !(c.SlowRatio > 0) {
		c.SlowRatio = d.SlowRatio
	}
	if c.SlowMinimumCalls == 0 {
		c.SlowMinimumCalls = d.SlowMinimumCalls
	}
	if c.OpenDuration <= 0 {
		c.OpenDuration = d.OpenDuration
	}
	if c.MaxOpenDuration <= 0 {
		c.MaxOpenDuration = d.MaxOpenDuration
	}
	c.OpenDuration = min(c.OpenDuration, c.MaxOpenDuration)
	if c.ProbeDeadline <= 0 {
		c.ProbeDeadline = d.ProbeDeadline
	}
	if !(c.LaneRatio > 0) {
		c.LaneRatio = 0
	}
	c.LaneRatio = min(c.LaneRatio, 1)
	if c.LaneBurst <= 0 {
		c.LaneBurst = d.LaneBurst
	}
	c.QuarantineAfter = max(c.QuarantineAfter, 0)
	if c.QuarantineDuration <= 0 {
		c.QuarantineDuration = d.QuarantineDuration
	}
	return c
}
