package main

import (
	"context"
	"errors"
	"fmt"
)

// flood measures what plugins that write to their output as fast as they can cost the pods that they do not select, all of whose plugins are well.
func (b *bench) flood(ctx context.Context) error {
	defer b.closeSides()
	const n = 10
	well, err := b.supervised(ctx, setup{plugins: n})
	if err != nil {
		return err
	}
	well.name = "all well"
	for _, loud := range []int{1, 3} { // how many plugins write without end
		ill, err := b.supervised(ctx, setup{plugins: n, loud: loud})
		if err != nil {
			return err
		}
		ill.name = fmt.Sprintf("%d flood", loud)
		const ops = 100
		others := pluginName(n - 1)
		t, err := race(ctx, b.times(matrixRounds), ops, well.creator(typical(), others, 1), ill.creator(typical(), others, 1))
		if err != nil {
			return errors.Join(err, fmt.Errorf("%d plugins that write without end", loud))
		}
		r := summarize(ratios(t[1].rounds.medians(), t[0].rounds.medians()))
		b.report.Flood = append(b.report.Flood, t...)
		fmt.Fprintf(b.out, "%d of %d plugins write without end: a creation of the others' takes %s times as long: p50 %.0f µs, p99 %.0f µs (without: %.0f and %.0f µs)\n",
			loud, n, r, t[1].P50, t[1].P99, t[0].P50, t[0].P99)
	}
	return nil
}
