package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Rounds of a full run.
const (
	fullRounds   = 20
	matrixRounds = 12
	heavyRounds  = 6 // of what takes long, with so many operations each
	heavyOps     = 3
	slowFull     = 10 * time.Second
)

// row is one comparison of a full run.
type row struct {
	Event    string   `json:"event"`
	Payload  string   `json:"payload"`
	Plugins  int      `json:"plugins"`
	Selected string   `json:"selected"` // none, one or all
	Speedup  summary  `json:"speedup"`  // of the supervisor over the stock NRI
	Timings  []timing `json:"timings"`  // stock, supervisor and, where it was measured, the floor
}

// part is one part of a full run.
type part struct {
	name string
	run  func(context.Context) error
}

func (b *bench) parts() []part {
	return []part{
		{"bars", b.allBars},
		{"matrix", b.matrix},
		{"tiny", b.tiny},
		{"work", b.work},
		{"events", b.events},
		{"parallel", b.parallelStarts},
		{"slow", b.slowStock},
		{"flood", b.flood},
		{"upstream", b.upstream},
		{"synchronize", b.synchronize},
		{"aftersync", b.afterSync},
		{"memory", b.memory},
		{"start", b.startUp},
	}
}

// all measures everything, or only one part.
func (b *bench) all(ctx context.Context, only string) error {
	for _, p := range b.parts() {
		if only != "" && only != p.name {
			continue
		}
		if err := p.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (b *bench) allBars(ctx context.Context) error {
	for _, g := range b.groups(slowFull) {
		o, err := b.judge(ctx, g, "", b.times(fullRounds))
		if err != nil {
			return err
		}
		b.report.Bars = append(b.report.Bars, o...)
	}
	return nil
}

// matrix compares CreateContainer for numbers of plugins, shares of them that are selected, and payloads.
func (b *bench) matrix(ctx context.Context) error {
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100} {
		if err := b.matrixOf(ctx, n); err != nil {
			return fmt.Errorf("%d plugins: %w", n, err)
		}
	}
	return nil
}

// tiny compares CreateContainer for pods that have next to nothing.
func (b *bench) tiny(ctx context.Context) error {
	defer b.closeSides()
	const n = 10
	stock, err1 := b.stock(ctx, setup{plugins: n})
	ours, err2 := b.supervised(ctx, setup{plugins: n})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, share := range shares(n) {
		t, err := race(ctx, b.times(matrixRounds), opsPerRound/2, stock.creator(tiny(), share.role, share.want), ours.creator(tiny(), share.role, share.want))
		if err != nil {
			return err
		}
		b.add(row{Event: "CreateContainer", Payload: tiny().name, Plugins: n, Selected: share.name, Timings: t})
	}
	return nil
}

func (b *bench) matrixOf(ctx context.Context, n int) error {
	defer b.closeSides()
	stock, err1 := b.stock(ctx, setup{plugins: n})
	ours, err2 := b.supervised(ctx, setup{plugins: n})
	least, err3 := b.newFloor()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	for _, p := range []payload{typical(), heavy()} {
		rounds, ops := b.times(matrixRounds), opsPerRound/2
		if p.name == heavy().name {
			rounds, ops = b.times(heavyRounds), heavyOps
		}
		for _, share := range shares(n) {
			contenders := []contender{stock.creator(p, share.role, share.want), ours.creator(p, share.role, share.want), least.creator(p, share.role)}
			t, err := race(ctx, rounds, ops, contenders...)
			if err != nil {
				return err
			}
			b.add(row{Event: "CreateContainer", Payload: p.name, Plugins: n, Selected: share.name, Timings: t})
		}
	}
	return nil
}

// work compares creations by plugins that work 2 ms for each container: one after the other, and, where the supervisor may, side by side.
func (b *bench) work(ctx context.Context) error {
	for _, n := range []int{1, 10} {
		for _, same := range []bool{false, true} {
			if err := b.workOf(ctx, n, same); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) workOf(ctx context.Context, n int, same bool) error {
	defer b.closeSides()
	const work = 2 * time.Millisecond
	stock, err1 := b.stock(ctx, setup{plugins: n, work: work})
	ours, err2 := b.supervised(ctx, setup{plugins: n, work: work, same: same})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	name := "Create, 2 ms each"
	if same {
		name = "Create, 2 ms at once"
	}
	for _, share := range shares(n) {
		t, err := race(ctx, b.times(heavyRounds), heavyOps, stock.creator(typical(), share.role, share.want), ours.creator(typical(), share.role, share.want))
		if err != nil {
			return err
		}
		b.add(row{Event: name, Payload: typical().name, Plugins: n, Selected: share.name, Timings: t})
	}
	return nil
}

// share is how many of the plugins select a pod.
type share struct {
	name, role string
	want       int
}

func shares(n int) []share {
	return []share{{"none", "none", 0}, {"one", pluginName(n / 2), 1}, {"all", "all", n}}
}

// add completes a row and shows it.
func (b *bench) add(r row) {
	r.Speedup = summarize(ratios(r.Timings[0].rounds.medians(), r.Timings[1].rounds.medians()))
	b.report.Rows = append(b.report.Rows, r)
	fmt.Fprint(b.out, r)
}

// String is one line.
func (r row) String() string {
	least := ""
	if len(r.Timings) > 2 {
		least = fmt.Sprintf("   floor %5.0f", r.Timings[2].P50)
	}
	return fmt.Sprintf("%-20s %-8s %3d plugins, %-4s selected: stock p50 %8.0f p99 %8.0f   supervisor p50 %8.0f p99 %8.0f µs   %s times%s\n",
		r.Event, r.Payload, r.Plugins, r.Selected, r.Timings[0].P50, r.Timings[0].P99, r.Timings[1].P50, r.Timings[1].P99, r.Speedup, least)
}
