package chaos_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// Flags of this package; `make chaos` sets them.
var (
	matrixFlag = flag.String("chaos.matrix", "sample", "all: every fault at every event; sample: three faults, chosen by the seed, at every event")
	reportFlag = flag.String("chaos.report", "", "file that what ran is added to")
)

// sampled is how many faults of the matrix run when not all do.
const sampled = 3

// moments are what a fault of the matrix can meet: NRI's events, and what comes before them.
func moments() []string {
	var out []string
	for _, a := range everywhere("x") {
		event, _, _ := strings.Cut(a, " ")
		out = append(out, event)
	}
	return append(out, "ValidateContainerAdjustment", "Synchronize", "Configure")
}

// isEvent reports whether the runtime sends it for pods and containers.
func isEvent(moment string) bool { return moment != "Synchronize" && moment != "Configure" }

// memoryLimits reports whether the memory of a control group can be limited here.
func memoryLimits() bool {
	if unix.Access("/sys/fs/cgroup/memory", unix.W_OK) == nil { // version 1
		return true
	}
	enabled, err := os.ReadFile("/sys/fs/cgroup/cgroup.subtree_control")
	return err == nil && slices.Contains(strings.Fields(string(enabled)), "memory") && unix.Access("/sys/fs/cgroup/cgroup.procs", unix.W_OK) == nil
}

// clockJumped checks that the supervisor's clock has been wrong in both directions: its log says so.
func clockJumped(w *world) {
	w.t.Helper()
	at := func(way time.Duration) bool {
		return len(w.sup.Lines(func(l map[string]any) bool {
			text, _ := l["time"].(string)
			when, err := time.Parse(time.RFC3339Nano, text)
			return err == nil && time.Until(when)*way > 20*time.Hour
		})) > 0
	}
	if ahead, behind := at(1), at(-1); !ahead || !behind {
		w.t.Errorf("the supervisor's clock was ahead: %v, behind: %v", ahead, behind)
	}
}

// unfolder deletes the sick plugins' folders, with their sockets, and kills them.
func unfolder(w *world) {
	w.t.Helper()
	for _, name := range w.sick {
		if err := os.RemoveAll(filepath.Join(w.sup.Dir, "run", "plugins", name)); err != nil {
			w.t.Fatal(err)
		}
	}
	killed(w)
}

// fullDisk gives the supervisor a state directory without room for a byte.
func fullDisk(t *testing.T, dir string) {
	t.Helper()
	state := filepath.Join(dir, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("full", state, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(state, "filler"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
}

// stranger is the id of the first container of each world, which no sick plugin selects.
func stranger() string {
	return harness.Container(harness.Pod("default", "before-0", "healthy", "none"), "main").GetId()
}

// sickly are the plugins of a row, one for each moment that it can meet.
func (r row) sickly() []sick {
	var out []sick
	for _, m := range moments() {
		if r.senseless != nil && r.senseless(m) != "" {
			continue
		}
		s := sick{name: strings.ToLower(m), hasty: r.hasty, extra: r.extra, start: r.start, validates: m == "ValidateContainerAdjustment"}
		if r.action != "" {
			s.actions = []string{m + " " + r.action}
		}
		out = append(out, s)
	}
	return out
}

// moment returns the moment that a sick plugin of the matrix is for.
func moment(plugin string) string {
	i := slices.IndexFunc(moments(), func(m string) bool { return strings.ToLower(m) == plugin })
	return moments()[i]
}

func TestEveryFaultAtEveryMoment(t *testing.T) {
	t.Parallel()
	list := rows()
	if os.Geteuid() != 0 { // what only root can cause is no part of what others run
		list = slices.DeleteFunc(list, func(r row) bool { return r.root })
	}
	all := *matrixFlag == "all"
	list = slices.DeleteFunc(list, func(r row) bool {
		omit := r.possible != nil && (!all || !r.possible())
		if omit && all {
			report(t, "left out, because it cannot be caused on this machine: %s", r.name)
		}
		return omit
	})
	if !all {
		rng := rand.New(rand.NewPCG(seed(t), 2))
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:sampled]
	}
	st := newStocks(t)
	var cells atomic.Int64
	t.Run("faults", func(t *testing.T) {
		for _, r := range list {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				cells.Add(int64(runRow(t, st, r)))
			})
		}
	})
	report(t, "%d faults, %d cells ran; %d cells make no sense (testdata/senseless.txt)", len(list), cells.Load(), len(senselessCells()))
}

// runRow runs all cells of a fault in one world and returns how many there were.
func runRow(t *testing.T, st stocks, r row) int {
	t.Helper()
	var o harness.Options
	if r.binary != nil {
		o.Binary = r.binary(t)
	}
	w := prepareWorld(t, st, o, r.prepare, r.sickly()...)
	w.create("before", "none", "")
	for _, name := range w.sick {
		if p := w.create("before", w.class(r), name); !p.works {
			t.Errorf("before the fault the work of %s is missing (%s)", name, p.why)
		}
	}
	before := map[string]float64{}
	for _, name := range w.sick {
		before[name] = w.calls(name)
	}
	w.begin()
	switch {
	case r.strike != nil:
		r.strike(w)
	case r.start != "":
		killed(w)
	default: // what happens before the events happens to a new incarnation
		for _, name := range w.sick {
			if !isEvent(moment(name)) {
				w.kill(name)
			}
		}
	}
	for range 2 {
		for _, name := range w.sick {
			w.create("during", "none", "")
			p := w.create("during", w.class(r), name)
			w.update(p)
			w.remove(p)
			w.update(w.create("during", w.class(r), name))
		}
	}
	for _, name := range w.sick {
		w.struck(r, name, before[name])
	}
	w.end()
	if r.check != nil {
		r.check(w)
	}
	for _, name := range w.sick {
		w.serving(name)
	}
	w.stream("after", 2*len(w.sick))
	for _, name := range w.sick {
		w.truth(name)
	}
	w.neverSilent()
	w.neverLate()
	w.foreignersUntouched()
	w.nothingLeft()
	return len(w.sick)
}

// class is the class of the next pod of a row.
func (w *world) class(r row) string {
	if r.class != "" {
		return r.class
	}
	return classes[w.rng.IntN(len(classes))]
}

func (w *world) kill(plugin string) {
	w.t.Helper()
	if err := unix.Kill(w.sup.PluginPID(plugin), unix.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
}

// struck waits until it can be seen that the fault has met the plugin: a cell without a fault would prove nothing.
func (w *world) struck(r row, plugin string, before float64) {
	w.t.Helper()
	m := moment(plugin)
	seen := func() (float64, string) {
		_, text := w.sup.Get("/metrics")
		label := `plugin="` + plugin + `"`
		ended := harness.SumOf(w.t, text, "nri_supervisor_plugin_exits_total", label)
		calls := harness.SumOf(w.t, text, "nri_supervisor_plugin_calls_total", label, `event="`+m+`"`)
		good := harness.SumOf(w.t, text, "nri_supervisor_plugin_calls_total", label, `event="`+m+`"`, `outcome="success"`)
		// A plugin has a limited number of series: what exceeds it is counted as other.
		others := harness.SumOf(w.t, text, "nri_supervisor_plugin_calls_total", label, `outcome="other"`)
		switch {
		case r.sign == clash:
			return harness.SumOf(w.t, text, "nri_supervisor_conflicts_total", label), text
		case r.sign == empty && m == "Synchronize":
			return harness.SumOf(w.t, text, "nri_supervisor_container_updates_total", label, `result="denied"`), text
		case !isEvent(m) && r.sign == works:
			return ended, text // it was killed, and started with the fault
		case !isEvent(m):
			return ended - 1, text // once more than it was killed
		case r.sign == exits:
			return ended, text
		case r.sign == fails || r.sign == empty:
			return calls - good + others, text
		default: // its work is there: that is seen on the containers; here, that it was asked at that moment
			return calls + others - before, text
		}
	}
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		n, text := seen()
		if n > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			w.t.Errorf("%s at %s did not strike in 30 s:\n%s", r.name, m, grep(text, `plugin="`+plugin+`"`))
			return
		}
	}
}

// calls is how often the plugin was called at its moment.
func (w *world) calls(plugin string) float64 {
	w.t.Helper()
	return w.sup.Sum("nri_supervisor_plugin_calls_total", `plugin="`+plugin+`"`, `event="`+moment(plugin)+`"`)
}

// foreignersUntouched checks that no update of the container that nobody selected reached the runtime.
func (w *world) foreignersUntouched() {
	w.t.Helper()
	for _, u := range w.rt.Updates() {
		if u.GetContainerId() == stranger() {
			w.t.Errorf("an update of container %s, which its plugin did not select, reached the runtime: %v", u.GetContainerId(), u)
		}
	}
}

// report says what ran, in the log and in the file that the command line names.
func report(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Log(line)
	if *reportFlag == "" {
		return
	}
	f, err := os.OpenFile(*reportFlag, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := fmt.Fprintf(f, "%s: %s\n", t.Name(), line); err != nil {
		t.Fatal(err)
	}
}
