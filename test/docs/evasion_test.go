package docs_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Forms that show a reader a command without showing it to the test.
var (
	errTildes  = errors.New("a block between ~~~ is not run: fence it with ```")
	errQuoted  = errors.New("a block that begins in a quotation or beside the mark of a list is not run: begin it on a line of its own, out of quotations")
	errHTML    = errors.New("a block of HTML is not run: fence it with ```")
	errIndent  = errors.New("an indented block is not run: fence it with ```")
	errCommand = errors.New("a command stands in a block of a language that is not run: write sh or console")
)

// marks are what can stand before a block on its first line: of quotations and lists.
var marks = regexp.MustCompile(`^(?:(?:>|[-*+]|\d+[.)])\s*)+`)

// item is the begin of an item of a list, up to its text.
var item = regexp.MustCompile(`^ *(?:[-*+]|\d+[.)]) +`)

// prompts are the beginnings of lines that a reader takes for a command: with a prompt in any block, and of a block that is plain text also without one.
var prompts = regexp.MustCompile(`^\s*\$ `)

var programs = regexp.MustCompile(`^\s*(?:sudo|nri-supervisor|kubectl|systemctl|make|helm|go) +[a-z./-]`)

// evades returns why a line outside of blocks shows something that the test does not see; nil if it does not.
func evades(line string, indented bool) error {
	text := strings.TrimSpace(line)
	rest := marks.ReplaceAllString(text, "")
	html := strings.ToLower(text)
	switch {
	case strings.HasPrefix(rest, "~~~"):
		return errTildes
	case rest != text && strings.HasPrefix(rest, "```"):
		return errQuoted
	case strings.Contains(html, "<pre") || strings.Contains(html, "<code"):
		return errHTML
	case indented:
		return errIndent
	}
	return nil
}

// hides returns an error for a block that is not run and shows a command.
func hides(language, text string) error {
	for line := range strings.Lines(text) {
		if prompts.MatchString(line) || language == "text" && programs.MatchString(line) {
			return fmt.Errorf("%w: %q", errCommand, strings.TrimSpace(line))
		}
	}
	return nil
}

// margin finds blocks that are blocks because they are indented: behind an empty line, by four columns more than the text of the list that they are in.
type margin struct {
	lists   []int // where the text of each item begins that is not at its end yet
	blank   bool  // the line before was empty
	indents bool  // the line before was in such a block
}

// add takes the next line outside of fenced blocks, and reports whether it is in an indented block.
func (m *margin) add(line string) bool {
	line = strings.ReplaceAll(line, "\t", "    ")
	text := strings.TrimLeft(line, " ")
	if text == "" {
		m.blank = true
		return false
	}
	indent := len(line) - len(text)
	for m.blank && len(m.lists) > 0 && indent < m.lists[len(m.lists)-1] {
		m.lists = m.lists[:len(m.lists)-1]
	}
	at := 0
	if len(m.lists) > 0 {
		at = m.lists[len(m.lists)-1]
	}
	m.indents = (m.blank || m.indents) && indent >= at+4
	m.blank = false
	if mark := item.FindString(line); mark != "" && !m.indents {
		for len(m.lists) > 0 && indent < m.lists[len(m.lists)-1] {
			m.lists = m.lists[:len(m.lists)-1]
		}
		m.lists = append(m.lists, len(mark))
	}
	return m.indents
}
