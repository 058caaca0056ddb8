package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

const (
	// watchEvery is how often status --watch looks: what a person follows, at a cost that a node does not notice.
	watchEvery = 2 * time.Second
	// clearScreen moves to the top and clears what is below, ECMA-48; for terminals only.
	clearScreen = "\x1b[H\x1b[J"
)

// watchStatus shows the status again and again until ctx ends. A service that does not answer is shown as that, and asked again.
func watchStatus(ctx context.Context, c *admin.Client, w io.Writer, out format, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		st, err := c.Status(ctx)
		if ctx.Err() != nil {
			return nil // interrupted, as it is meant to end
		}
		if err := showFrame(w, out, st, err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// showFrame writes one look. On a terminal it takes the place of the one before, else it follows it.
func showFrame(w io.Writer, out format, st supervisor.Status, failed error) error {
	if out == formatJSON {
		if failed != nil {
			return asked(failed) // each line is a status, or there is none
		}
		return out.showLine(w, st)
	}
	now := time.Now()
	b := paperFor(w)
	if terminal(w) {
		b.WriteString(clearScreen)
	}
	b.WriteString(stamp(now) + "\n\n")
	if failed != nil {
		b.WriteString("no answer\n")
		wrap(b, "    ", asked(failed).Error())
		if hint, ok := errors.AsType[hintError](asked(failed)); ok {
			for _, h := range hint.hints {
				wrap(b, "    ", h)
			}
		}
	} else {
		writeStatus(b, st, now)
	}
	b.WriteByte('\n')
	return write(w, b.Bytes())
}
