package policy

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestGlobsAgreeWithASlowTwin(t *testing.T) {
	t.Parallel()
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	text := func(letters []rune, most int) string {
		var b strings.Builder
		for range r.IntN(most) {
			b.WriteRune(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	matches := 0
	for range 20_000 {
		pattern, name := "a"+text([]rune("ab*?é."), 7), text([]rune("abé./"), 9)
		if r.IntN(2) == 0 {
			pattern = pattern[1:] + "*"
		}
		g, err := compileGlob(pattern)
		if err != nil {
			t.Fatalf("compileGlob(%q): %v", pattern, err)
		}
		twin := strings.NewReplacer(`\*`, `(?s:.*)`, `\?`, `(?s:.)`).Replace(regexp.QuoteMeta(pattern))
		want := regexp.MustCompile("^" + twin + "$").MatchString(name)
		if got := g.match(name); got != want {
			t.Fatalf("seed %d: %q on %q = %v, want %v", seed, pattern, name, got, want)
		}
		if want {
			matches++
		}
	}
	if matches < 500 {
		t.Errorf("only %d matches: the test tells little", matches)
	}
}

func TestAGlobTakesNoExponentialTime(t *testing.T) {
	t.Parallel()
	g, err := compileGlob(strings.Repeat("a*", 30) + "b")
	if err != nil {
		t.Fatal(err)
	}
	if g.match(strings.Repeat("a", 5000)) {
		t.Error("matched without a b")
	}
}

func TestGlobsRefuseWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"", "[a]", "a]", "{a,b}", `a\*`, "!a"} {
		if _, err := compileGlob(pattern); err == nil {
			t.Errorf("%q is accepted", pattern)
		}
	}
}

func TestAGlobMatchesTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{"a*": true, "a?b": true, "a??b": false, "ab": false} {
		g, err := compileGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.match("a\xffb"); got != want || utf8.ValidString("a\xffb") {
			t.Errorf("%q = %v, want %v", pattern, got, want)
		}
	}
}

func TestPathGlobs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern string
		yes, no []string
	}{
		{"/opt/ml/**", []string{"/opt/ml/x", "/opt/ml/a/b", "/opt/ml/.hidden"}, []string{"/opt/ml", "/opt/mlx/y", "/opt/x", "/OPT/ml/x"}},
		{"/opt/*/bin", []string{"/opt/a/bin"}, []string{"/opt/bin", "/opt/a/b/bin", "/opt/a/bin/x"}},
		{"/opt/**/bin", []string{"/opt/bin", "/opt/a/bin", "/opt/a/b/bin"}, []string{"/opt/a/bin/x", "/opt/xbin"}},
		{"/**", []string{"/a", "/a/b"}, []string{"a", ""}},
		{"/opt/x", []string{"/opt/x"}, []string{"/opt/x/y", "/opt/xx", "opt/x"}},
		{"/opt/v?-*", []string{"/opt/v1-x", "/opt/v1-"}, []string{"/opt/v-x", "/opt/v1-x/y"}},
		{"/a/**/b/**/c", []string{"/a/b/c", "/a/x/b/y/z/c"}, []string{"/a/c", "/a/b", "/a/b/c/d"}},
	} {
		g, err := compilePathGlob(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range tt.yes {
			if !g.match(path) {
				t.Errorf("%q does not match %q", tt.pattern, path)
			}
		}
		for _, path := range tt.no {
			if g.match(path) {
				t.Errorf("%q matches %q", tt.pattern, path)
			}
		}
	}
}

func TestSuggestionsFindSlipsAndNothingElse(t *testing.T) {
	t.Parallel()
	known := []string{"timeouts", "team", "selector", "Env", "Mounts"}
	for word, want := range map[string]string{
		"timeout": "timeouts", "tiemouts": "timeouts", "Selector": "selector", "env": "Env", "slector": "selector",
		"colour": "", "x": "", "mount": "Mounts", strings.Repeat("t", 5000): "",
	} {
		if got := nearest(word, known); got != want {
			t.Errorf("nearest(%.20q) = %q, want %q", word, got, want)
		}
	}
}
