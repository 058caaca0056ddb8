//go:build manuals

package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); standIns()[name] != nil {
		os.Exit(play(name, os.Args[1:]))
	}
	os.Exit(harness.Main(m))
}

func TestEveryCommandOfTheManualsWorksAsShown(t *testing.T) {
	t.Parallel()
	for _, file := range pages(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			steps, wrong := parse(string(text))
			for _, err := range wrong {
				t.Errorf("%s: %v", file, err)
			}
			if t.Failed() {
				return
			}
			read(t, filepath.Base(file), steps)
		})
	}
}

// read does what a page says, from top to bottom.
func read(t *testing.T, page string, steps []step) {
	t.Helper()
	var r *reader
	next := map[verb]step{}
	for _, s := range steps {
		where := fmt.Sprintf("%s:%d", page, s.line)
		if s.forNext() {
			next[s.verb] = s
			continue
		}
		about := next
		if s.isBlock() {
			next = map[verb]step{}
			if _, found := about[verbFile]; !found && s.verb == verbOther {
				continue
			}
		}
		if r == nil {
			r = newReader(t)
		}
		r.do(where, s, about)
	}
	if len(next) > 0 {
		t.Errorf("%s: %v is about no block", page, next)
	}
}

// do does one step.
func (r *reader) do(where string, s step, about map[verb]step) {
	r.t.Helper()
	exit := 0
	if e, found := about[verbExit]; found {
		n, err := strconv.Atoi(e.arg)
		if err != nil {
			r.t.Fatalf("%s: exit %q", where, e.arg)
		}
		exit = n
	}
	file, isFile := about[verbFile]
	_, background := about[verbBackground]
	interrupt, interrupted := about[verbInterrupt]
	switch {
	case isFile:
		path := r.rooted(file.arg)
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.dir, path)
		}
		r.write(path, r.rooted(s.text), 0o644)
	case background && s.verb == verbConsole:
		r.beside(strings.TrimPrefix(s.text, "$ "))
	case background:
		r.beside(s.text)
	case interrupted:
		r.interrupt(where, s.text, interrupt.arg, about[verbMeanwhile].arg)
	case s.verb == verbService:
		r.beside("nri-supervisor run")
	case s.verb == verbEnd:
		r.end()
	case s.verb == verbCheckout:
		r.checkout()
	case s.verb == verbPod:
		r.pod(s.arg)
	case s.verb == verbReady:
		r.ready(strings.Fields(s.arg))
	case s.verb == verbScript, s.verb == verbSetup:
		if out, code := r.bash(s.text); code != exit {
			r.t.Errorf("%s: exit code %d, want %d:\n%s\n%s", where, code, exit, s.text, out)
		}
	case s.verb == verbConsole:
		list, err := commands(s.text)
		if err != nil {
			r.t.Fatalf("%s: %v", where, err)
		}
		for i, c := range list {
			want := 0
			if i == len(list)-1 {
				want = exit
			}
			r.console(where, c, want)
		}
	}
}

// looks are commands that change nothing: what they show may take a moment to become true, or a machine that has a moment to spare, so they are asked again.
var looks = regexp.MustCompile(`^(sudo )?nri-supervisor (status|missed|events|explain|plugin (list|show)|verify|demo)\b`)

func (r *reader) console(where string, c command, exit int) {
	r.t.Helper()
	limit := time.Now().Add(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		raw, code := r.bash(c.text)
		printed := r.unrooted(raw)
		if code == exit && (c.shown == nil || matches(c.shown, printed)) {
			return
		}
		if !looks.MatchString(c.text) || time.Now().After(limit) {
			r.t.Errorf("%s: $ %s\nexit code %d, want %d; it printed\n%s\nand the page shows\n%s", where, c.text, code, exit, printed, strings.Join(c.shown, "\n"))
			return
		}
		<-tick.C
	}
}

// forNext reports whether the step is about the block that follows.
func (s step) forNext() bool {
	return slices.Contains([]verb{verbFile, verbExit, verbBackground, verbMeanwhile, verbInterrupt}, s.verb)
}

// isBlock reports whether a reader sees the step.
func (s step) isBlock() bool {
	return slices.Contains([]verb{verbScript, verbConsole, verbOther}, s.verb)
}
