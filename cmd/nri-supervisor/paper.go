package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// paper is what a command writes for people before it is printed: the one way in which lines are broken. On a terminal no line is wider than the terminal, and what is too long goes on below,
// indented; nothing is cut off. For a pipe or a file lines are never broken, so that grep sees a whole sentence and awk a whole row.
type paper struct {
	bytes.Buffer
	width int // of the terminal, in columns; 0: nobody's, lines are not broken
}

// What a terminal can have. A window that does not say, or that is smaller than anything can be shown in, is taken for one that nobody has resized.
const (
	usualWidth = 80
	leastWidth = 40
)

// paperFor is an empty paper for what is printed to w, with its width.
func paperFor(w io.Writer) *paper { return &paper{width: widthOf(w)} }

// sized is a writer that has a width of its own.
type sized interface{ Columns() int }

// widthOf is the width of the terminal that w is, or 0.
func widthOf(w io.Writer) int {
	if s, ok := w.(sized); ok {
		return s.Columns()
	}
	f, ok := w.(*os.File)
	if !ok || !terminal(w) {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || int(size.Col) < leastWidth {
		return usualWidth
	}
	return int(size.Col)
}

// wrap writes text behind a prefix, broken between words to fit; further lines are indented as far as the prefix. Line ends in the text count as spaces.
func wrap(b *paper, prefix, text string) { hang(b, prefix, columns(prefix), text) }

// hang is wrap with another indentation of further lines.
func hang(b *paper, prefix string, indent int, text string) {
	b.WriteString(prefix)
	at := columns(prefix)
	for i, word := range strings.Fields(text) {
		word = clean(word)
		n := columns(word)
		switch {
		case i == 0:
		case b.width > 0 && at+1+n > b.width && (n <= b.width-indent || at+1 >= b.width-b.width/4): // a longer word is broken anyway: it may begin here if there is room
			at = b.newLine(indent)
		default:
			b.WriteByte(' ')
			at++
		}
		for b.width > 0 && at+n > b.width {
			piece := breakable(word, b.width-at)
			b.WriteString(piece)
			at = b.newLine(indent)
			word = word[len(piece):]
			n = columns(word)
		}
		b.WriteString(word)
		at += n
	}
	b.WriteByte('\n')
}

// say writes a line of text that is indented; further lines more so.
func (b *paper) say(indent int, format string, args ...any) {
	hang(b, strings.Repeat(" ", indent), indent+noteIndent, fmt.Sprintf(format, args...))
}

// evidence writes a line that is not text for people, such as a plugin's output, as it is: only the end of the terminal breaks it.
func evidence(b *paper, prefix, line string) {
	line = clean(line)
	indent := columns(prefix)
	b.WriteString(prefix)
	for b.width > 0 && indent+columns(line) > b.width {
		piece := fitting(line, b.width-indent)
		b.WriteString(piece)
		b.newLine(indent)
		line = line[len(piece):]
	}
	b.WriteString(line + "\n")
}

func (b *paper) newLine(indent int) (at int) {
	b.WriteString("\n" + strings.Repeat(" ", indent))
	return indent
}

// breakable is the longest beginning of a word that fits and ends where names are joined, or else just fits.
func breakable(word string, room int) string {
	fits := fitting(word, room)
	if i := strings.LastIndexAny(fits, "-/.,:;=_"); i > len(fits)/2 {
		return fits[:i+1]
	}
	return fits
}

// fitting is the longest beginning of a text that fits, at least one rune.
func fitting(text string, room int) string {
	for i, r := range text {
		if room -= runeColumns(r); room < 0 && i > 0 {
			return text[:i]
		}
	}
	return text
}

// columns is how wide a text is on a terminal.
func columns(text string) int {
	n := 0
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

// runeColumns is the width of a rune: 0 for marks that combine with the one before, 2 for the wide ones of East Asia (Unicode Standard Annex 11) and pictures.
func runeColumns(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana), r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
		return 2
	default:
		return 1
	}
}

// fields are lines of a name and a text, the texts beneath each other.
type fields struct {
	b     *paper
	width int // of the names, with the space behind
}

// line writes a name and its text. An empty name continues the one above; an empty text leaves the line out.
func (f fields) line(name, text string) {
	if text != "" {
		wrap(f.b, name+strings.Repeat(" ", max(f.width-len(name), 1)), text)
	}
}
