package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// gateRounds are the rounds of a gate. A ratio that is behind its bar is measured again with three times as many, and once more after a pause, before it counts: a neighbour on the
// machine can spoil the first, and a real regression spoils all. It fails the gate when it is behind by more than noise: when three of four rounds are behind the bar.
const gateRounds = 15

// pause is how long a gate waits before it measures for the third time, which it does as long as it has not taken so long yet that its five minutes could be too few.
const (
	pause     = 10 * time.Second
	lastThird = 3 * time.Minute
)

// slowGate is how long each of the streams of pods with a slow plugin is, which in a full run are 30 s together.
const slowGate = 4 * time.Second

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
	Others  float64  `json:"others"` // the part of the machine that others used meanwhile, of 1
	Timings []timing `json:"timings"`
}

// gate measures every bar and fails if one is missed.
func (b *bench) gate(ctx context.Context, only string) error {
	rounds := b.times(gateRounds)
	var missed []error
	for _, g := range b.groups(slowGate) {
		if only != "" && !slices.Contains(g.bars, only) {
			continue
		}
		outcomes, err := b.judge(ctx, g, only, rounds, 3*rounds, 3*rounds)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			if o.Behind && !o.busy() {
				missed = append(missed, fmt.Errorf("%s: %w: %s is %.3g, must be %s", o.Name, errBehind, o.Text, o.Ratio.Median, o.Bar))
			}
		}
	}
	fmt.Fprintf(b.out, "%d s\n", int(time.Since(b.began).Seconds()))
	return errors.Join(missed...)
}

// judge measures the bars of a group, or only one. What is missed at first is measured again with so many rounds, and after a pause once more what is then behind.
func (b *bench) judge(ctx context.Context, g group, only string, first int, again ...int) ([]outcome, error) {
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
		for i, rounds := range again {
			if err != nil || o.Met || i > 0 && (!o.Behind || time.Since(b.began) > lastThird) {
				break
			}
			fmt.Fprintf(b.out, "%-12s %s while others used %.0f%% of the machine; measured again with more rounds\n", bar.name, o.Ratio, 100*o.Others)
			if i > 0 {
				err = rest(ctx, pause)
			}
			if err == nil {
				o, err = bar.judge(ctx, rounds)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bar.name, err)
		}
		fmt.Fprint(b.out, o)
		out = append(out, o)
	}
	return out, nil
}

// judge measures once.
func (b bar) judge(ctx context.Context, rounds int) (outcome, error) {
	before := usedProcessors()
	r, t, err := b.measure(ctx, rounds)
	if err != nil {
		return outcome{}, err
	}
	others := usedProcessors().others(before)
	if b.others != nil {
		others = b.others()
	}
	s := summarize(r)
	best := s.Low // of the middle half
	if b.atLeast {
		best = s.High
	}
	return outcome{
		Name: b.name, Text: b.text, Bar: b.String(), Ratio: s, Met: b.met(s.Median), Behind: !b.met(best), Rounds: len(r), Others: others, Timings: t,
	}, nil
}

// mostOthers is how much of the machine others may use while a bar is measured that is then judged. With more, a ratio says how the scheduler shares processors out: three loops that never
// sleep make of a ratio of 4 anything between 0.6 and 6.
const mostOthers = 0.2

func (o outcome) busy() bool { return o.Others > mostOthers }

// String is the ratio with its spread.
func (s summary) String() string { return fmt.Sprintf("%.3g (%.3g to %.3g)", s.Median, s.Low, s.High) }

// String is one line for the bar, and one for each contender.
func (o outcome) String() string {
	var b strings.Builder
	word := "met"
	switch {
	case o.Behind && o.busy():
		word = "behind, but NOT JUDGED since the machine does too much else"
	case o.Behind:
		word = "MISSED"
	case !o.Met:
		word = "missed within noise"
	}
	fmt.Fprintf(&b, "%-12s %s, bar: %s, %s: %s (others used %.0f%% of the machine)\n", o.Name, o.Ratio, o.Bar, word, o.Text, 100*o.Others)
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
