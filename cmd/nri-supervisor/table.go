package main

import (
	"strings"
)

// columnGap is the space between two columns.
const columnGap = 2

// table is a table for people. Names in it are never cut short, since somebody will copy them: when a line would be wider than the terminal, the first column gets a line of its own, and
// then the widest ones that are left.
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

// Indentations of a table.
const (
	cellIndent = 2 // of what stands below the first column
	noteIndent = 4
)

// render writes the table.
func (t *table) render(b *paper) {
	widths := t.widths()
	lifted := t.lift(widths, b.width)
	left := make([]int, 0, len(widths)) // the columns of the line that is left
	for i := range widths {
		if !lifted[i] {
			left = append(left, i)
		}
	}
	for i, r := range append([]tableRow{{cells: t.head}}, t.rows...) {
		indent := 0
		if lifted[0] {
			hang(b, "", cellIndent, r.cells[0])
			indent = cellIndent
		}
		for c := 1; i > 0 && c < len(widths); c++ {
			if lifted[c] {
				wrap(b, strings.Repeat(" ", indent)+strings.ToLower(t.head[c])+" ", r.cells[c])
			}
		}
		writeCells(b, indent, r.cells, widths, left)
		for _, n := range r.notes {
			wrap(b, strings.Repeat(" ", noteIndent), n)
		}
	}
}

// sentence is from which width on the last column is text that may be broken, and leastSentence what it needs then.
const (
	sentence      = 40
	leastSentence = 30
)

// lift chooses the columns that get lines of their own, so that the rest fits into a width: the first, then the widest.
func (t *table) lift(widths []int, width int) []bool {
	lifted := make([]bool, len(widths))
	fits := func() bool {
		sum := -columnGap
		if lifted[0] {
			sum += cellIndent
		}
		for i, w := range widths {
			if i == len(widths)-1 && w > sentence {
				w = leastSentence
			}
			if !lifted[i] {
				sum += w + columnGap
			}
		}
		return sum <= width
	}
	for next := 0; width > 0 && !fits(); {
		lifted[next] = true
		next = -1
		for i, w := range widths {
			if !lifted[i] && (next < 0 || w > widths[next]) {
				next = i
			}
		}
		if next < 0 {
			break
		}
	}
	return lifted
}

// widths are those of the columns.
func (t *table) widths() []int {
	out := make([]int, len(t.head))
	for _, r := range append([]tableRow{{cells: t.head}}, t.rows...) {
		for i, c := range r.cells {
			out[i] = max(out[i], columns(c))
		}
	}
	return out
}

// writeCells writes the cells of some columns on one line. If it is too long, its last cell is broken.
func writeCells(b *paper, indent int, cells []string, widths, which []int) {
	var line strings.Builder
	line.WriteString(strings.Repeat(" ", indent))
	last := ""
	for i, c := range which {
		if i == len(which)-1 {
			last = cells[c]
			break
		}
		line.WriteString(cells[c] + strings.Repeat(" ", widths[c]-columns(cells[c])+columnGap))
	}
	wrap(b, line.String(), last)
}
