package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// bar is one row of what is promised about speed, as a ratio between what is measured in turns, or of a figure to its limit.
type bar struct {
	name, text string
	bound      float64
	atLeast    bool // else at most
	// measure returns the ratios of the rounds and what they are made of.
	measure func(ctx context.Context, rounds int) ([]float64, []timing, error)
	// others says what others used of the machine when that was measured, if it may have been for another bar; nil: it is measured each time.
	others func() float64
}

// met reports whether a ratio is on the right side.
func (b bar) met(ratio float64) bool {
	if b.atLeast {
		return ratio >= b.bound
	}
	return ratio <= b.bound
}

func (b bar) String() string {
	word := "at most"
	if b.atLeast {
		word = "at least"
	}
	return fmt.Sprintf("%s %.4g", word, b.bound)
}

// group is bars that are measured with the same processes.
type group struct {
	bars    []string // their names
	prepare func(context.Context) ([]bar, error)
}

func (b *bench) groups(stream time.Duration) []group {
	return []group{
		{[]string{"one-of-10", "none-of-10", "all-of-10"}, b.tenPlugins},
		{[]string{"one-of-100"}, b.hundredPlugins},
		{[]string{"parallel-10"}, b.parallelPlugins},
		{[]string{"hung-others"}, b.hungPlugin},
		{[]string{"lane-others", "lane-p99"}, b.slowPlugin(stream)},
		{[]string{"restart-10000"}, b.restart},
		{[]string{"first-missed", "first-worst", "first-p50", "memory-peak"}, b.fullNode},
		{[]string{"start-alone", "start-50", "memory-alone", "memory-container"}, b.figures},
	}
}

// opsPerRound is how many operations a contender does in its turn: long enough to be warm, short against what else happens on a machine.
const opsPerRound = 20

// faster returns a measurement of how many times faster the last contender is than the first.
func faster(ops int, contenders ...contender) func(context.Context, int) ([]float64, []timing, error) {
	return func(ctx context.Context, rounds int) ([]float64, []timing, error) {
		t, err := race(ctx, rounds, ops, contenders...)
		if err != nil {
			return nil, nil, err
		}
		return ratios(t[0].rounds.medians(), t[len(t)-1].rounds.medians()), t, nil
	}
}

// slower returns a measurement of how many times slower the last contender is than the first.
func slower(ops int, contenders ...contender) func(context.Context, int) ([]float64, []timing, error) {
	return func(ctx context.Context, rounds int) ([]float64, []timing, error) {
		t, err := race(ctx, rounds, ops, contenders...)
		if err != nil {
			return nil, nil, err
		}
		return ratios(t[len(t)-1].rounds.medians(), t[0].rounds.medians()), t, nil
	}
}

func (b *bench) tenPlugins(ctx context.Context) ([]bar, error) {
	const n = 10
	one, err1 := b.stock(ctx, setup{plugins: 1})
	ten, err2 := b.stock(ctx, setup{plugins: n})
	ours, err3 := b.supervised(ctx, setup{plugins: n})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	p := typical()
	return []bar{
		{
			name: "one-of-10", text: "10 plugins, 1 selected, CreateContainer: times faster than 10 stock plugins", bound: 4, atLeast: true,
			measure: faster(opsPerRound, ten.creator(p, pluginName(5), 1), ours.creator(p, pluginName(5), 1)),
		},
		{
			name: "none-of-10", text: "10 plugins, none selected: times the duration of one stock plugin that does nothing", bound: 1.25,
			measure: slower(opsPerRound, one.creator(p, "none", 0), ours.creator(p, "none", 0)),
		},
		{
			name: "all-of-10", text: "10 plugins, all selected, distinct indexes: times the duration of 10 stock plugins", bound: 1.3,
			measure: slower(opsPerRound, ten.creator(p, "all", n), ours.creator(p, "all", n)),
		},
	}, nil
}

func (b *bench) hundredPlugins(ctx context.Context) ([]bar, error) {
	const n = 100
	stock, err1 := b.stock(ctx, setup{plugins: n})
	ours, err2 := b.supervised(ctx, setup{plugins: n})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	p := typical()
	return []bar{{
		name: "one-of-100", text: "100 plugins, 1 selected, CreateContainer: times faster than 100 stock plugins", bound: 35, atLeast: true,
		measure: faster(opsPerRound/2, stock.creator(p, pluginName(50), 1), ours.creator(p, pluginName(50), 1)),
	}}, nil
}

func (b *bench) parallelPlugins(ctx context.Context) ([]bar, error) {
	const n, work = 10, 2 * time.Millisecond
	stock, err1 := b.stock(ctx, setup{plugins: n, work: work})
	ours, err2 := b.supervised(ctx, setup{plugins: n, work: work, same: true})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	p := typical()
	return []bar{{
		name: "parallel-10", text: "10 plugins of one index that work 2 ms each, all selected, in parallel: times faster than stock", bound: 5, atLeast: true,
		measure: faster(opsPerRound/2, stock.creator(p, "all", n), ours.creator(p, "all", n)),
	}}, nil
}
