package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Rounds of a full run.
const (
	fullRounds   = 30
	matrixRounds = 12
	slowFull     = 30 * time.Second
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
		{"events", b.events},
		{"parallel", b.parallelStarts},
		{"slow", b.slowStock},
		{"flood", b.flood},
		{"upstream", b.upstream},
		{"synchronize", b.synchronize},
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
		o, err := b.judge(ctx, g, "", b.times(fullRounds), 0)
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

func (b *bench) matrixOf(ctx context.Context, n int) error {
	defer b.closeSides()
	stock, err1 := b.stock(ctx, setup{plugins: n})
	ours, err2 := b.supervised(ctx, setup{plugins: n})
	least, err3 := b.newFloor()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	payloads := []payload{typical()}
	if n == 1 || n == 10 {
		payloads = append(payloads, heavy())
	}
	for _, p := range payloads {
		for _, share := range shares(n) {
			contenders := []contender{stock.creator(p, share.role, share.want), ours.creator(p, share.role, share.want), least.creator(p, share.role)}
			t, err := race(ctx, b.times(matrixRounds), opsPerRound/2, contenders...)
			if err != nil {
				return err
			}
			b.add(row{Event: "CreateContainer", Payload: p.name, Plugins: n, Selected: share.name, Timings: t})
		}
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
