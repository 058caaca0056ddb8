package isolation

import (
	"fmt"
	"strings"
	"testing"
)

// TestTheLineThatBeginsACrashIsKeptHoweverLongItsStackIs: the end of a stack says nothing to whoever is called at night.
func TestTheLineThatBeginsACrashIsKeptHoweverLongItsStackIs(t *testing.T) {
	t.Parallel()
	var stack strings.Builder
	for n := range 3 * lastLines {
		fmt.Fprintf(&stack, "main.f%d(...)\n", n)
	}
	flood := strings.Repeat("x\n", 2*LineBurst)
	for name, c := range map[string]struct {
		stream Stream
		text   string
		first  string
		lines  int
	}{
		"a panic":                 {Stderr, "starting\npanic: no device\n\n" + stack.String(), "panic: no device", lastLines + 1},
		"a fatal error":           {Stderr, "fatal error: all goroutines are asleep\n" + stack.String(), "fatal error: all goroutines are asleep", lastLines + 1},
		"a panic behind a flood":  {Stderr, flood + "panic: no device\n" + stack.String(), "panic: no device", lastLines + 1},
		"a short one":             {Stderr, "panic: no device\nmain.f()\n", "panic: no device", 2},
		"no crash":                {Stderr, stack.String(), fmt.Sprintf("main.f%d(...)", 2*lastLines), lastLines},
		"the same word on stdout": {Stdout, "panic: no device\n" + stack.String(), fmt.Sprintf("main.f%d(...)", 2*lastLines), lastLines},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &output{}
			o.drain(c.stream, strings.NewReader(c.text), nil)
			if got := o.lastOutput(); len(got) != c.lines || got[0] != c.first {
				t.Errorf("%d lines are kept, the first is %q; want %d and %q", len(got), got[0], c.lines, c.first)
			}
		})
	}
}
