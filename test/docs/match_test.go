//go:build manuals

package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// varies stands for what a page does not show.
const varies = "…"

// matches reports whether a command printed what the page shows.
func matches(shown []string, printed string) bool {
	var b strings.Builder
	b.WriteString(`\A`)
	for _, line := range shown {
		if strings.TrimSpace(line) == varies {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(strings.TrimRight(line, " "), varies)
		for i, p := range parts {
			parts[i] = regexp.QuoteMeta(p)
		}
		b.WriteString(strings.Join(parts, `.*`) + ` *\n`)
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String()).MatchString(strings.TrimRight(printed, "\n") + "\n")
}

func TestWhatVariesMatchesAnythingAndTheRestOnlyItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shown, printed string
		want           bool
	}{
		{"a b", "a b\n", true},
		{"a b", "a c\n", false},
		{"a b", "a b\nc\n", false},
		{"up for …, fine", "up for 3s, fine\n", true},
		{"up for …, fine", "up for 3s\n, fine\n", false},
		{"a\n…\nc", "a\nb\nb\nc\n", true},
		{"a\n…\nc", "a\nc\n", true},
		{"a\n…", "b\n", false},
		{"a.c", "abc\n", false},
	} {
		if got := matches(strings.Split(tt.shown, "\n"), tt.printed); got != tt.want {
			t.Errorf("%q matches %q: %t, want %t", tt.shown, tt.printed, got, tt.want)
		}
	}
}
