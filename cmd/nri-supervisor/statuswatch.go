package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
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
	top := b.Len()
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
		if rows := rowsOf(w); rows > 0 && bytes.Count(b.Bytes(), []byte("\n")) >= rows {
			worstFirst(&st)
			onlyCounted(&st)
			onOneLine(st.Plugins, b.width)
			b.Truncate(top)
			writeStatus(b, st, now)
			cut(b, rows)
			return write(w, b.Bytes())
		}
	}
	b.WriteByte('\n')
	return write(w, b.Bytes())
}

// worstFirst puts the plugins first for which somebody looks: those out of service, then those that need a look.
func worstFirst(st *supervisor.Status) {
	rank := func(p supervisor.PluginStatus) int {
		switch {
		case !inService(p):
			return 0
		case len(statuspage.LookTexts(p, time.Now())) > 0:
			return 1
		default:
			return 2
		}
	}
	st.Plugins = slices.Clone(st.Plugins)
	slices.SortStableFunc(st.Plugins, func(a, b supervisor.PluginStatus) int { return cmp.Compare(rank(a), rank(b)) })
}

// onlyCounted leaves of what the configuration and the service warn of its number: else it would push the plugins in trouble out of the window.
func onlyCounted(st *supervisor.Status) {
	st.Config.MoreProblems += len(st.Config.Problems)
	st.Config.Problems = nil
	if n := len(st.Warnings); n > 1 {
		st.Warnings = []string{count(n, "warning") + ": nri-supervisor status shows them"}
	}
}

// onOneLine leaves of what plugins and their manifests brought as errors what fits on one line: else one of them would push the others out of the window. All of it is in plugin show.
func onOneLine(plugins []supervisor.PluginStatus, width int) {
	for i := range plugins {
		p := &plugins[i]
		p.LastError = firstLine(p.LastError, width-noteIndent-len(lastErrorIs))
		p.Stale = firstLine(p.Stale, width-noteIndent-len(staleIs))
		p.Problems = slices.Clone(p.Problems)
		for k, text := range p.Problems {
			p.Problems[k] = firstLine(text, width-noteIndent)
		}
	}
}

// firstLine is as much of a text as fits into so many columns, with "…" where it was cut off.
func firstLine(text string, room int) string {
	text = clean(strings.Join(strings.Fields(text), " "))
	if columns(text) <= room {
		return text
	}
	return fitting(text, max(1, room-1)) + "…"
}

// cut leaves so much of a frame as a terminal with so many rows shows without moving the headline out of it, and says how much more there is.
func cut(b *paper, rows int) {
	lines := bytes.SplitAfter(bytes.TrimSuffix(b.Bytes(), []byte("\n")), []byte("\n"))
	keep := max(1, rows-2) // one for the note, one for the cursor
	if len(lines) <= keep {
		return
	}
	shown := bytes.Clone(bytes.Join(lines[:keep], nil))
	b.Reset()
	b.Write(shown)
	fmt.Fprintf(b, "… %d more lines: nri-supervisor status shows them\n", len(lines)-keep)
}

// tall is a writer that has a height of its own.
type tall interface{ Rows() int }

// rowsOf is the height of the terminal that w is, or 0.
func rowsOf(w io.Writer) int {
	if t, ok := w.(tall); ok {
		return t.Rows()
	}
	f, ok := w.(*os.File)
	if !ok || !terminal(w) {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Row)
}
