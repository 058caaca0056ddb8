package main

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// lineWidth is what a line fits in where it can: the width of a terminal that nobody has resized.
const lineWidth = 80

// columnGap is the space between two columns.
const columnGap = 2

// table is a table for people. Names in it are never cut short, since somebody will copy them: when a line would be too long, the first column gets a line of its own.
type table struct {
	head []string
	rows []tableRow
}

// tableRow is one row, and the lines of text below it.
type tableRow struct {
	cells []string
	notes []string
}

// row adds a row. An empty cell shows as "-".
func (t *table) row(notes []string, cells ...string) {
	for i, c := range cells {
		if cells[i] = clean(c); c == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, tableRow{cells, notes})
}

// render writes the table.
func (t *table) render(b *bytes.Buffer) {
	first := 0
	widths := t.widths(first)
	if total(widths) > lineWidth {
		first = 1
		widths = t.widths(first)
	}
	for _, r := range append([]tableRow{{cells: t.head}}, t.rows...) {
		if first == 1 {
			b.WriteString(r.cells[0] + "\n  ")
		}
		writeCells(b, r.cells[first:], widths)
		for _, n := range r.notes {
			wrap(b, "    ", n)
		}
	}
}

// widths are those of the columns from first on.
func (t *table) widths(first int) []int {
	out := make([]int, len(t.head)-first)
	for _, cells := range append([]tableRow{{cells: t.head}}, t.rows...) {
		for i, c := range cells.cells[first:] {
			out[i] = max(out[i], utf8.RuneCountInString(c))
		}
	}
	return out
}

func total(widths []int) int {
	sum := (len(widths) - 1) * columnGap
	for _, w := range widths {
		sum += w
	}
	return sum
}

func writeCells(b *bytes.Buffer, cells []string, widths []int) {
	for i, c := range cells {
		b.WriteString(c)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+columnGap))
		}
	}
	b.WriteByte('\n')
}

// wrap writes text behind a prefix, broken between words to fit; further lines are indented as far as the prefix. A word that is too long stays whole; line ends in the
// text count as spaces.
func wrap(b *bytes.Buffer, prefix, text string) {
	width := utf8.RuneCountInString(prefix)
	indent := strings.Repeat(" ", width)
	b.WriteString(prefix)
	at := width
	for i, word := range strings.Fields(text) {
		word = clean(word)
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > lineWidth:
			b.WriteString("\n" + indent)
			at = width
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteByte('\n')
}

// fields are lines of a name and a text, the texts beneath each other.
type fields struct {
	b     *bytes.Buffer
	width int // of the names, with the space behind
}

// line writes a name and its text. An empty name continues the one above; an empty text leaves the line out.
func (f fields) line(name, text string) {
	if text != "" {
		wrap(f.b, name+strings.Repeat(" ", max(f.width-len(name), 1)), text)
	}
}
