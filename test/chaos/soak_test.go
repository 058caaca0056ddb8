package chaos_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
		"updates:50", "inside", "flood:2000", "fdleak:20", "fork", "foreign:" + stranger(), "forbidden", "reject:no", "status:Unimplemented", "status:Internal",
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
	switch n := w.rng.IntN(40); {
	case n < 2: // from outside: killed
		counts["killed"]++
		w.hit(w.sick[w.rng.IntN(len(w.sick))], unix.SIGKILL)
	case n < 4: // from outside: stopped; a call finds out
		counts["stopped"]++
		w.hit(w.sick[w.rng.IntN(len(w.sick))], unix.SIGSTOP)
	case n == 4:
		w.operate(counts)
	case n < 11 && len(live) > 0:
		w.update(live[w.rng.IntN(len(live))])
	case n < 19 && len(live) > 0:
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

// operate is what people do to a plugin while it fails: a restart, a breaker opened and closed again by hand, another manifest.
func (w *world) operate(counts map[string]int) {
	w.t.Helper()
	plugin := w.sick[w.rng.IntN(len(w.sick))]
	command := func(args ...string) {
		w.t.Helper()
		if code, _, stderr := w.sup.Command(args...); code != 0 {
			w.t.Errorf("%s: exit code %d: %s", strings.Join(args, " "), code, stderr)
		}
	}
	switch w.rng.IntN(3) {
	case 0:
		counts["restarted by hand"]++
		command("plugin", "restart", plugin)
	case 1:
		counts["tripped and reset"]++
		command("plugin", "trip", plugin)
		w.create("soak", classes[w.rng.IntN(len(classes))], plugin)
		command("plugin", "reset", plugin)
	case 2:
		counts["manifest changed"]++
		w.change(plugin, counts["manifest changed"])
	}
}

// change writes another manifest for the plugin, which the supervisor notices by itself: it is run with another environment.
func (w *world) change(plugin string, turn int) {
	w.t.Helper()
	file := filepath.Join(w.sup.Dir, "plugins.d", "plugins.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	docs := strings.Split(string(text), "---\n")
	i := slices.IndexFunc(docs, func(d string) bool { return strings.Contains(d, "metadata: {name: "+plugin+"}") })
	env := regexp.MustCompile(`(env: \[\{name: GORACE,[^}]*\})(, \{name: TURN,[^}]*\})?`)
	docs[i] = env.ReplaceAllString(docs[i], fmt.Sprintf(`${1}, {name: TURN, value: "%d"}`, turn))
	next := file + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(strings.Join(docs, "---\n")), 0o600), os.Rename(next, file)); err != nil {
		w.t.Fatal(err)
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
