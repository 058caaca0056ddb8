package main

import (
	"math"
	"slices"
	"time"
)

// demoResult is what `demo -o json` prints. Latencies are milliseconds.
type demoResult struct {
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"`
	Without string  `json:"without,omitempty"` // what was switched off
	Rounds  int     `json:"rounds"`            // how often it was measured; this is the last
	// Containers is how many the runtime was asked to create with the broken plugins present, RecoveryContainers how many of those came after the stream.
	Containers         int `json:"containers"`
	RecoveryContainers int `json:"recoveryContainers"`
	// Unselected is how many containers of the stream no broken plugin selects, UnselectedAffected how many of those failed, differ from the baseline, or waited longer than
	// the one timeout that a hang may cost.
	Unselected         int `json:"unselected"`
	UnselectedAffected int `json:"unselectedAffected"`
	// DeadlineMissed is how many requests of the runtime were not answered before its own deadline, Registrations how often the supervisor registered.
	DeadlineMissed int                `json:"deadlineMissed"`
	Registrations  int                `json:"registrations"`
	Plugins        []demoPluginResult `json:"plugins"`
	// The time from the begin of RunPodSandbox to the end of StartContainer. LimitMs is what the p99 may be: twice the baseline's, or 10 ms more.
	Latency  demoLatency  `json:"unselectedLatencyMs"`
	Baseline demoLatency  `json:"baselineLatencyMs"`
	LimitMs  float64      `json:"limitMs"`
	SetAside demoSetAside `json:"setAside"`
	// Promises are the three of the product.
	Promises []demoPromise `json:"promises"`

	onlySlow bool // promises are broken, and all by waits that were too long
}

// demoPluginResult is one plugin. Selected and Adjusted are counted at the runtime, the rest is what the supervisor tells.
type demoPluginResult struct {
	Name          string         `json:"name"`
	Team          string         `json:"team"`
	Does          string         `json:"fault"`
	Selected      int            `json:"selected"`
	Adjusted      int            `json:"adjusted"`
	Missed        map[string]int `json:"missed"`
	Rejected      int            `json:"rejected"`
	Restarts      int            `json:"restarts"`
	BreakerOpened int            `json:"breakerOpened"`
	BreakerClosed int            `json:"breakerClosed"`
	InService     bool           `json:"inService"` // at the end
}

func (p demoPluginResult) missed() int {
	total := 0
	for _, n := range p.Missed {
		total += n
	}
	return total
}

// demoLatency is a distribution in milliseconds.
type demoLatency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// demoSetAside are the containers that arrived while a plugin used up its one timeout. They are judged by that timeout, not by the p99.
type demoSetAside struct {
	Containers int     `json:"containers"`
	Timeouts   int     `json:"timeouts"`
	Hangs      int     `json:"hangs"`
	LongestMs  float64 `json:"longestMs"`
}

// demoPromise is a promise and what broke it.
type demoPromise struct {
	Name   string   `json:"name"`
	Kept   bool     `json:"kept"`
	Proof  string   `json:"proof"`  // what was looked at
	Broken []string `json:"broken"` // empty when kept

	slow int // how many of them are waits that were too long
}

func demoMs(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Microsecond)) / 1000 }

// demoPercentile is the nearest-rank percentile of a sorted list; 0 for an empty one.
func demoPercentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*percent + 99) / 100
	return sorted[max(rank, 1)-1]
}

func demoLatencyOf(samples []time.Duration) demoLatency {
	slices.Sort(samples)
	return demoLatency{P50: demoMs(demoPercentile(samples, 50)), P99: demoMs(demoPercentile(samples, 99))}
}
