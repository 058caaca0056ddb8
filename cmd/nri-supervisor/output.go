package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

// format is how a command prints. It is a closed set and a flag's value.
type format string

const (
	formatTable format = "table" // for people
	formatJSON  format = "json"  // the object of the admin API
)

// String returns the value of the flag.
func (f *format) String() string { return string(*f) }

// Type names the flag's values in the help text.
func (f *format) Type() string { return "table|json" }

// Set takes the value of the flag.
func (f *format) Set(s string) error {
	switch format(s) {
	case formatTable, formatJSON:
		*f = format(s)
		return nil
	}
	return errors.New("use table or json")
}

func (f *format) add(cmd *cobra.Command) {
	*f = formatTable
	cmd.Flags().VarP(f, "output", "o", "how to print")
	completeFlag(cmd, "output", completeNames(string(formatTable), string(formatJSON)))
}

// show writes v as JSON, or calls table for people.
func (f *format) show(w io.Writer, v any, table func(*paper)) error {
	if *f == formatJSON {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("encode the output: %w", err)
		}
		return write(w, escapeJSON(b.Bytes()))
	}
	b := paperFor(w)
	table(b)
	return write(w, b.Bytes())
}

// showLine writes v as JSON on one line.
func (*format) showLine(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return write(w, escapeJSON(b.Bytes()))
}

// write tells of an output that cannot be written, such as a full disk: a list that was cut off must not look whole.
func write(w io.Writer, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// escapeJSON escapes what JSON allows in strings and a terminal may act upon: DEL, the C1 controls and what turns the direction of text.
func escapeJSON(p []byte) []byte {
	if bytes.IndexFunc(p, active) < 0 {
		return p
	}
	var b bytes.Buffer
	for _, r := range string(p) {
		if active(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// active reports runes that are not shown but act, apart from the newline.
func active(r rune) bool {
	return r != '\n' && r <= 0xffff && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// clean makes text of plugins, manifests and pods harmless for a terminal, as the page does for a browser.
func clean(s string) string { return statuspage.Clean(s) }

// age is a duration for people, in at most two units: 45s, 3m, 2h10m, 3d4h.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	two := func(big, small time.Duration, bigName, smallName string) string {
		out := strconv.Itoa(int(d/big)) + bigName
		if rest := d % big / small; rest > 0 {
			out += strconv.Itoa(int(rest)) + smallName
		}
		return out
	}
	switch {
	case d < time.Second: // also when the clock was set back
		return "0s"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < day:
		return two(time.Hour, time.Minute, "h", "m")
	default:
		return two(day, time.Hour, "d", "h")
	}
}

// since is the age of an instant; "-" for none.
func since(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return age(now.Sub(t))
}

// sinceText is the age of an instant, and the instant.
func sinceText(now, t time.Time) string { return since(now, t) + ", since " + stamp(t) }

// ago is how long ago an instant was, and the instant.
func ago(now, t time.Time) string { return since(now, t) + " ago (" + stamp(t) + ")" }

// moment is the age of an instant and the instant itself for a column of a table: the time of today in UTC, the day of what is older.
func moment(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	day, today := t.UTC(), now.UTC()
	layout := "15:04Z"
	switch {
	case day.Year() != today.Year():
		layout = "2 Jan 2006"
	case day.YearDay() != today.YearDay():
		layout = "2 Jan"
	}
	return since(now, t) + ", " + day.Format(layout)
}

// stamp is an instant as logs have it, to compare with them.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// count is a number with its noun, regular ones only.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
