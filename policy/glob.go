package policy

import (
	"fmt"
	"strings"
)

// glob is a pattern in which * is any run of characters, the empty one included, and ? is exactly
// one. There is nothing else: no classes, no braces, no escapes. Matching does not allocate and
// takes at most len(pattern) × len(text) steps.
type glob struct {
	pattern string
	// literal says that the pattern has neither * nor ?.
	literal bool
}

// compileGlob checks the pattern.
func compileGlob(pattern string) (glob, error) {
	if pattern == "" {
		return glob{}, fmt.Errorf("an empty glob matches nothing")
	}
	if i := strings.IndexAny(pattern, `[]{}\!`); i >= 0 {
		return glob{}, fmt.Errorf("%q is not allowed in a glob", pattern[i:i+1])
	}
	return glob{pattern: pattern, literal: !strings.ContainsAny(pattern, "*?")}, nil
}

// match says whether the whole text matches.
func (g glob) match(text string) bool {
	if g.literal {
		return g.pattern == text
	}
	p, t := 0, 0
	star, restart := -1, 0
	for t < len(text) {
		switch {
		case p < len(g.pattern) && g.pattern[p] == '*':
			star, restart = p, t
			p++
		case p < len(g.pattern) && g.pattern[p] == '?':
			p++
			t += runeLen(text[t:])
		case p < len(g.pattern) && g.pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			restart += runeLen(text[restart:])
			p, t = star+1, restart
		default:
			return false
		}
	}
	for p < len(g.pattern) && g.pattern[p] == '*' {
		p++
	}
	return p == len(g.pattern)
}

// runeLen is the number of bytes of the first character.
func runeLen(s string) int {
	for i := range s {
		if i > 0 {
			return i
		}
	}
	return len(s)
}

// globs is a list of which one must match.
type globs []glob

// matchKnown says whether one matches. What is unknown, the empty text, is matched by * alone.
func (gs globs) matchKnown(text string) bool {
	for _, g := range gs {
		if text == "" {
			if g.pattern == "*" {
				return true
			}
			continue
		}
		if g.match(text) {
			return true
		}
	}
	return false
}

// globs compiles the list at path, reporting what is wrong.
func (d *document) globs(path string, patterns []string) globs {
	out := make(globs, 0, len(patterns))
	for i, p := range patterns {
		if d.failedUnder(indexPath(path, i)) {
			continue
		}
		g, err := compileGlob(p)
		if err != nil {
			d.errorf(indexPath(path, i), `write a name in which * is any run of characters and ? is one, such as "ml-*"`, "bad glob %q: %v", p, err)
			continue
		}
		out = append(out, g)
	}
	return out
}

// pathGlob is a glob for absolute paths: * and ? stay within one folder, ** crosses folders.
type pathGlob []string

// compilePathGlob checks the pattern.
func compilePathGlob(pattern string) (pathGlob, error) {
	if !strings.HasPrefix(pattern, "/") {
		return nil, fmt.Errorf("it does not start with /")
	}
	parts := strings.Split(pattern[1:], "/")
	for _, part := range parts {
		switch {
		case part == "" || part == "." || part == "..":
			return nil, fmt.Errorf("%q is not allowed between slashes", part)
		case part != "**" && strings.Contains(part, "**"):
			return nil, fmt.Errorf("** must stand alone between slashes")
		}
		if _, err := compileGlob(part); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// match says whether the whole path matches. ** is any number of folders, none included; at the
// end of the pattern it is at least one name.
func (g pathGlob) match(path string) bool {
	if !strings.HasPrefix(path, "/") {
		return false
	}
	return matchParts(g, strings.Split(path[1:], "/"))
}

// matchParts fills one row of the table "the first i parts match the first j names" after the other.
func matchParts(parts, names []string) bool {
	row := make([]bool, len(names)+1)
	row[0] = true
	for i, part := range parts {
		next := make([]bool, len(names)+1)
		if part == "**" {
			reached := false
			for j := range row {
				// At the end ** takes at least one name.
				next[j] = reached || (row[j] && i < len(parts)-1)
				reached = reached || row[j]
			}
		} else {
			g := glob{pattern: part, literal: !strings.ContainsAny(part, "*?")}
			for j, name := range names {
				next[j+1] = row[j] && g.match(name)
			}
		}
		row = next
	}
	return row[len(names)]
}
