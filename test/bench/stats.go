package main

import (
	"math"
	"slices"
	"time"
)

// quantile returns the q-quantile of sorted values, between the two nearest; 0 without any.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// summary is what is told of a number of values: the middle, and the quarter below and above it.
type summary struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`  // a quarter of the values are below
	High   float64 `json:"high"` // a quarter of the values are above
}

func summarize(values []float64) summary {
	s := slices.Sorted(slices.Values(values))
	return summary{Median: quantile(s, 0.5), Low: quantile(s, 0.25), High: quantile(s, 0.75)}
}

// rounds are the samples of one contender, round by round.
type rounds [][]time.Duration

// medians are those of the rounds, in microseconds.
func (r rounds) medians() []float64 { return r.quantiles(0.5) }

func (r rounds) quantiles(q float64) []float64 {
	out := make([]float64, len(r))
	for i, round := range r {
		out[i] = quantile(sortedMicros(round), q)
	}
	return out
}

// all returns every sample in microseconds, sorted.
func (r rounds) all() []float64 { return sortedMicros(slices.Concat(r...)) }

func sortedMicros(d []time.Duration) []float64 {
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = float64(v) / float64(time.Microsecond)
	}
	slices.Sort(out)
	return out
}

// ratios divides round by round: what slows the machine for a while slows both sides of a round. Rounds whose divisor is 0 are left out.
func ratios(of, over []float64) []float64 {
	var out []float64
	for i, divisor := range over[:min(len(of), len(over))] {
		if divisor > 0 {
			out = append(out, of[i]/divisor)
		}
	}
	return out
}
