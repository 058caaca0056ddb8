package chaos_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

var soakFlag = flag.Duration("chaos.soak", 3*time.Second, "how long plugins fail at random, several at once")

// soaked is how many plugins fail in a soak.
const soaked = 5

// soakActions are what a pod of a soak may ask of a plugin that selects it.
func soakActions() []string {
	return []string{
		"kill", "abort", "panic", "exit:0", "exit:4", "hang", "pause:" + ms(450), "slow:" + ms(200), "error:no", "deadline", "garbage", "half", "close", "oversize", "empty",
		"updates:50", "inside", "flood:2000", "fdleak:20", "fork", "foreign:" + stranger(),
	}
}

// TestRandomFaultsAtOnceKeepThePromises has several plugins fail at random, at random events, by themselves and by signals from outside, while pods come and go. The model is
// simple: what a plugin knows at the end is what lives and selects it, told once, and everything that it missed was said.
func TestRandomFaultsAtOnceKeepThePromises(t *testing.T) {
	t.Parallel()
	var list []sick
	for i := range soaked {
		list = append(list, sick{name: fmt.Sprintf("sick-%d", i), hasty: true})
	}
	w := newWorld(t, newStocks(t), list...)
	w.create("before", "none", "")
	counts := map[string]int{}
	for end := time.Now().Add(*soakFlag); time.Now().Before(end); {
		w.soakStep(counts)
	}
	for _, p := range w.pods { // those that ask for faults go: what is left is for the plugins to know
		if p.live && p.asks {
			w.remove(p)
		}
	}
	for _, name := range w.sick {
		w.serving(name)
	}
	for _, name := range w.sick {
		w.truth(name)
	}
	w.neverSilent()
	w.neverLate()
	w.foreignersUntouched()
	w.nothingLeft()
	total := 0
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		t.Error("no fault was tried")
	}
	report(t, "%d pods, %d faults: %v", len(w.pods), total, counts)
}

// soakStep is one random thing that happens on the node.
func (w *world) soakStep(counts map[string]int) {
	w.t.Helper()
	live := slices.DeleteFunc(slices.Clone(w.pods), func(p *podLife) bool { return !p.live || p == w.pods[0] })
	switch n := w.rng.IntN(20); {
	case n == 0: // from outside: killed
		counts["killed"]++
		w.hit(w.sick[w.rng.IntN(len(w.sick))], unix.SIGKILL)
	case n == 1: // from outside: stopped; a call finds out
		counts["stopped"]++
		w.hit(w.sick[w.rng.IntN(len(w.sick))], unix.SIGSTOP)
	case n < 5 && len(live) > 0:
		w.update(live[w.rng.IntN(len(live))])
	case n < 9 && len(live) > 0:
		w.remove(live[w.rng.IntN(len(live))])
	default:
		who, faults := "", map[string]string{}
		if w.rng.IntN(3) > 0 {
			who = w.sick[w.rng.IntN(len(w.sick))]
		}
		if who != "" && w.rng.IntN(4) == 0 {
			events, actions := moments(), soakActions()
			event, action := events[w.rng.IntN(len(events)-3)], actions[w.rng.IntN(len(actions))]
			faults[event] = action
			counts[action]++
		}
		w.createAsking("soak", classes[w.rng.IntN(len(classes))], who, faults).asks = len(faults) > 0
	}
}

// hit sends a signal to the plugin's newest process, if it still is one: a number may have been given to somebody else.
func (w *world) hit(plugin string, s unix.Signal) {
	w.t.Helper()
	pid := w.sup.PluginPID(plugin)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it is gone
	}
	defer func() { _ = unix.Close(fd) }()
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || exe != harness.Plugin(w.t, "chaos") {
		return
	}
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		w.t.Fatal(err)
	}
}
