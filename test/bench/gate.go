package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// gateRounds are the rounds of a gate. A ratio that is behind its bar is measured again with three times as many before it counts: a neighbour on the machine can spoil the first,
// and a real regression spoils both. It fails the gate when it is behind by more than noise: when three of four rounds are behind the bar.
const gateRounds = 15

// slowGate is how long the stream of pods with a slow plugin is, where a full run takes 30 s.
const slowGate = 8 * time.Second

var errBehind = errors.New("behind the bar")

// outcome is what a bar's measurement came to.
type outcome struct {
	Name    string   `json:"name"`
	Text    string   `json:"text"`
	Bar     string   `json:"bar"`
	Ratio   summary  `json:"ratio"`
	Met     bool     `json:"met"`
	Behind  bool     `json:"behind"` // by more than noise
	Rounds  int      `json:"rounds"`
	Timings []timing `json:"timings"`
}

// gate measures every bar and fails if one is missed.
func (b *bench) gate(ctx context.Context, only string) error {
	rounds := b.times(gateRounds)
	var missed []error
	begin := time.Now()
	for _, g := range b.groups(slowGate) {
		if only != "" && !slices.Contains(g.bars, only) {
			continue
		}
		outcomes, err := b.judge(ctx, g, only, rounds, 3*rounds)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			if o.Behind {
				missed = append(missed, fmt.Errorf("%s: %w: %s is %.3g, must be %s", o.Name, errBehind, o.Text, o.Ratio.Median, o.Bar))
			}
		}
	}
	fmt.Fprintf(b.out, "%d s\n", int(time.Since(begin).Seconds()))
	return errors.Join(missed...)
}

// judge measures the bars of a group, or only one, and again with more rounds those that are missed at first.
func (b *bench) judge(ctx context.Context, g group, only string, first, again int) ([]outcome, error) {
	defer b.closeSides()
	bars, err := g.prepare(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.bars[0], err)
	}
	var out []outcome
	for _, bar := range bars {
		if only != "" && only != bar.name {
			continue
		}
		o, err := bar.judge(ctx, first)
		if err == nil && !o.Met && again > 0 {
			fmt.Fprintf(b.out, "%-12s %s; measured again with more rounds\n", bar.name, o.Ratio)
			o, err = bar.judge(ctx, again)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bar.name, err)
		}
		fmt.Fprint(b.out, o)
		out = append(out, o)
	}
	return out, nil
}

func (b bar) judge(ctx context.Context, rounds int) (outcome, error) {
	r, t, err := b.measure(ctx, rounds)
	if err != nil {
		return outcome{}, err
	}
	s := summarize(r)
	best := s.Low // of the middle half
	if b.atLeast {
		best = s.High
	}
	return outcome{Name: b.name, Text: b.text, Bar: b.String(), Ratio: s, Met: b.met(s.Median), Behind: !b.met(best), Rounds: len(r), Timings: t}, nil
}

// String is the ratio with its spread.
func (s summary) String() string { return fmt.Sprintf("%.3g (%.3g to %.3g)", s.Median, s.Low, s.High) }

// String is one line for the bar, and one for each contender.
func (o outcome) String() string {
	var b strings.Builder
	word := "met"
	switch {
	case o.Behind:
		word = "MISSED"
	case !o.Met:
		word = "missed within noise"
	}
	fmt.Fprintf(&b, "%-12s %s, bar: %s, %s: %s\n", o.Name, o.Ratio, o.Bar, word, o.Text)
	for _, t := range o.Timings {
		fmt.Fprintf(&b, "  %-16s p50 %8.0f µs   p99 %8.0f µs   (%d samples)", t.Name, t.P50, t.P99, t.Samples)
		fmt.Fprintf(&b, "   processor: runtime %.0f", t.CPU)
		if t.Extra > 0 {
			fmt.Fprintf(&b, " + supervisor %.0f", t.Extra)
		}
		b.WriteString(" µs each")
		b.WriteByte('\n')
	}
	return b.String()
}
