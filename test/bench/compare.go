package main

import (
	"context"
	"errors"
	"fmt"
)

// compare measures another supervisor and this one in turns: what a change of the code is worth, which on a busy machine no two runs tell.
func (b *bench) compare(ctx context.Context, other string) error {
	const n = 10
	old, err1 := b.supervisedBy(ctx, other, "the other", setup{plugins: n})
	ours, err2 := b.supervisedBy(ctx, b.supervisor, "this one", setup{plugins: n})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, share := range shares(n) {
		t, err := race(ctx, b.times(fullRounds), opsPerRound, old.creator(typical(), share.role, share.want), ours.creator(typical(), share.role, share.want))
		if err != nil {
			return err
		}
		r := summarize(ratios(t[1].rounds.medians(), t[0].rounds.medians()))
		fmt.Fprintf(b.out, "%-4s of %d selected: %s times the duration, %.3g times the processor time (%.0f and %.0f µs)\n",
			share.name, n, r, t[1].Extra/t[0].Extra, t[1].Extra, t[0].Extra)
	}
	return nil
}
