package plugin_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

var update = flag.Bool("update", false, "write the golden conversations and the diagram in ARCHITECTURE.md anew; never in CI")

// defaults are those of a manifest (design, configuration).
func defaults() plugin.Config {
	return plugin.Config{
		Backoff: time.Second, MaxBackoff: time.Minute, StableAfter: time.Minute,
		CrashLoopExits: 5, CrashLoopWithin: time.Minute, CrashLoopRetry: 5 * time.Minute,
	}
}

// talk is one conversation with a machine on a clock of its own. A line is one of:
//
//	# text          comment; the first lines of a file say which invariant it pins
//	config k=v …    a new machine, and what differs from the defaults: backoff, max, stable, exits, within, retry
//	illegal         from here on the inputs break the contract: violations are expected
//	guard …         how the guard answers from now on: admits, refuses REASON [manual], or silent
//	+DURATION       time passes; armed timers fire when they are due, and are shown as "< timer …"
//	times N call …  N calls with ids counted up
//	anything else   an input, see parseInput
//
// Lines that begin with two spaces are what the machine answered.
type talk struct {
	m      *plugin.Machine
	w      *watch
	now    time.Time
	timers []armed
	guard  []string
	out    []string
	err    error
}

type armed struct {
	at time.Time
	plugin.Timer
}

func newTalk() *talk {
	t := &talk{now: time.Unix(1_000_000, 0)}
	t.configure(defaults())
	return t
}

// configure begins with a new machine.
func (t *talk) configure(c plugin.Config) {
	edges := map[string]bool{}
	if t.w != nil {
		edges = t.w.edges
	}
	t.m, t.w, t.timers, t.guard = plugin.New(c), newWatch(c, true), nil, []string{"admits"}
	t.w.edges = edges
}

func (t *talk) say(lines ...string) {
	for _, l := range lines {
		t.out = append(t.out, "  "+l)
	}
}

// step gives the machine one input and what follows from it at once.
func (t *talk) step(ins ...plugin.Input) {
	var effects, all []plugin.Effect
	for _, in := range ins {
		effects = slices.Clone(t.m.Step(t.now, in))
		all = append(all, effects...)
		if err := t.w.step(t.now, t.m, in, effects); err != nil && t.err == nil && t.w.legal {
			t.err = err
		}
	}
	t.say(printEffects(all)...)
	for _, e := range all {
		if e, ok := e.(plugin.Arm); ok {
			t.timers = append(t.timers, armed{at: t.now.Add(e.After), Timer: e.Timer})
		}
		if e, ok := e.(plugin.Admit); ok {
			t.answerGuard(e.ID)
		}
	}
}

func (t *talk) answerGuard(id plugin.CallID) {
	line := "admitted " + strconv.FormatUint(uint64(id), 10)
	switch t.guard[0] {
	case "silent":
		return
	case "refuses":
		line = strings.Join(append([]string{"refused", strconv.FormatUint(uint64(id), 10)}, t.guard[1:]...), " ")
	}
	t.say("< " + line)
	in, err := parseInput(line, t.now)
	if err != nil {
		t.err = err
		return
	}
	t.step(in)
}

// pass lets time pass.
func (t *talk) pass(d time.Duration) {
	end := t.now.Add(d)
	for {
		next := -1
		for i, a := range t.timers {
			if !a.at.After(end) && (next < 0 || a.at.Before(t.timers[next].at)) {
				next = i
			}
		}
		if next < 0 {
			t.now = end
			return
		}
		a := t.timers[next]
		t.timers = slices.Delete(t.timers, next, next+1)
		t.now = a.at
		t.say("< timer " + printTimer(a.Timer))
		t.step(a.Timer)
	}
}

func (t *talk) line(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch {
	case verb == "illegal":
		t.w.legal = false
	case verb == "config":
		return t.config(rest)
	case verb == "guard":
		t.guard = strings.Fields(rest)
	case strings.HasPrefix(verb, "+"):
		d, err := time.ParseDuration(verb[1:])
		if err != nil {
			return err
		}
		t.pass(d)
	case verb == "times":
		return t.times(rest)
	default:
		in, err := parseInput(line, t.now)
		if err != nil {
			return err
		}
		t.step(in)
	}
	return t.err
}

func (t *talk) config(rest string) error {
	c := defaults()
	durations := map[string]*time.Duration{
		"backoff": &c.Backoff, "max": &c.MaxBackoff, "stable": &c.StableAfter, "within": &c.CrashLoopWithin, "retry": &c.CrashLoopRetry,
	}
	for kv := range strings.FieldsSeq(rest) {
		k, v, _ := strings.Cut(kv, "=")
		var err error
		switch {
		case k == "exits":
			c.CrashLoopExits, err = strconv.Atoi(v)
		case durations[k] != nil:
			*durations[k], err = time.ParseDuration(v)
		default:
			err = fmt.Errorf("unknown key %q", k)
		}
		if err != nil {
			return fmt.Errorf("config: %w", err)
		}
	}
	t.configure(c)
	return nil
}

func (t *talk) times(rest string) error {
	w := &words{left: strings.Fields(rest)}
	n := w.number()
	if !w.take("call") || w.err != nil {
		return fmt.Errorf("times: write times N call …")
	}
	var ins []plugin.Input
	r := w.call(t.now)
	for range n {
		ins = append(ins, plugin.Call{Request: r})
		r.ID++
	}
	t.step(ins...)
	return w.err
}

// replay runs a conversation and returns it with what the machine says now.
func replay(text string) (string, *watch, error) {
	t := newTalk()
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "  "):
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			t.out = append(t.out, line)
			continue
		}
		t.out = append(t.out, line)
		if err := t.line(line); err != nil {
			return "", t.w, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return strings.Join(t.out, "\n") + "\n", t.w, nil
}

func conversations(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no golden conversation in testdata")
	}
	return files
}

func TestConversationsGoAsTheyAreWrittenDown(t *testing.T) {
	t.Parallel()
	for _, file := range conversations(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := string(b)
			if !strings.HasPrefix(want, "# Invariant: ") {
				t.Errorf("%s: open it with the invariant that it pins: # Invariant: …", file)
			}
			got, _, err := replay(want)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if got == want {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s (-want +got; -update writes it anew):\n%s", file, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
		})
	}
}

// The format itself must not hide anything: a line that it does not understand is an error.
func TestAConversationWithAMistakeIsNotReplayed(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"jump", "call 1 CreateContainr p1", "call x CreateContainer p1", "launched 1", "launched #1 inplce", "+5", "returned #1 1 succes",
		"guard refuses bsy\ncall 7 CreateContainer p1/c1", "config bckoff=1s", "times 3 stop", "refused 1 none", "call 1 CreateContainer p1 share=5",
	} {
		text := "start\nlaunched #1\nruntime-up 1\nsynced #1 1\n" + line + "\n"
		if _, _, err := replay(text); err == nil {
			t.Errorf("%q was understood", line)
		}
	}
}
