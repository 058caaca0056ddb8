package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patient is a restart policy for plugins that a test kills often.
const patient = "{backoff: 50ms, maxBackoff: 200ms, crashLoop: {exits: 100, within: 10s, retryEvery: 1s}}"

// created is a container that a load made.
type created struct {
	id         string
	labels     []string
	begin, end time.Time
}

// selected says whether the container's pod has the label.
func (c created) selected(label string) bool {
	for i := 0; i+1 < len(c.labels); i += 2 {
		if c.labels[i] == label {
			return true
		}
	}
	return false
}

// lettered are the labels of the nth pod: each combination of a, b and c in turn.
func lettered(n int) []string {
	var labels []string
	for bit, l := range []string{"a", "b", "c"} {
		if n>>bit&1 == 1 {
			labels = append(labels, l, "yes")
		}
	}
	return labels
}

// TestAHundredPodsAreCreatedWhilePluginsAreKilled: no pod fails, and of each plugin that selected a container either its work is there or it is recorded as missed.
func TestAHundredPodsAreCreatedWhilePluginsAreKilled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("E2E_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("again with the same order of kills: E2E_SEED=%d", seed)
	n := newNode(t, options{})
	s := startSupervisor(t, n.configure(manifests(letters(patient)...)))
	s.ready(1, "a", "b", "c")

	over, killed := make(chan struct{}), make(chan int)
	go func() {
		r, kills := rand.New(rand.NewPCG(seed, 0)), 0 //nolint:gosec // not a secret
		for {
			select {
			case <-over:
				killed <- kills
				return
			case <-time.After(time.Duration(50+r.IntN(300)) * time.Millisecond):
			}
			if s.kill([]string{"a", "b", "c"}[r.IntN(3)]) {
				kills++
			}
		}
	}()
	all := make([]created, 100)
	var wg sync.WaitGroup
	free := make(chan struct{}, 10)
	for i := range all {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			id, err := n.tryCreate(fmt.Sprint("pod-", i), lettered(i)...)
			if err != nil {
				t.Errorf("pod %d with %v: %v", i, lettered(i), err)
			}
			all[i] = created{id: id, labels: lettered(i)}
		})
	}
	wg.Wait()
	close(over)
	kills := <-killed
	if t.Failed() {
		return
	}
	with, without := n.judge(s, all)
	t.Logf("%d kills; a plugin's work is in %d containers and recorded as missed for %d", kills, with, without)
	if kills < 10 {
		t.Errorf("only %d kills", kills)
	}
	for i := range 8 {
		for _, l := range []string{"A", "B", "C"} {
			if got, want := n.has(all[i].id, l, "1"), n.spec(all[i].id).env(l) != ""; got != want {
				t.Errorf("pod %d: exec sees %s: %t, the runtime spec has it: %t", i, l, got, want)
			}
		}
	}
	n.eventually("a pod has the work of all three again", func() bool {
		id := n.mustCreate(fmt.Sprint("after-", time.Now().UnixNano()), lettered(7)...)
		return len(s.missed()[id]) == 0 && n.spec(id).env("A")+n.spec(id).env("B")+n.spec(id).env("C") == "111"
	})
	if got := s.count("runtime lost", nil); got != 0 {
		t.Errorf("the runtime was lost %d times", got)
	}
}

// letters are three plugins, one of each kind, that set A, B and C on pods with the label a, b and c. b writes down what it hears.
func letters(restart string) []manifest {
	return []manifest{
		{name: "a", index: "20", program: "env-injector", config: `{env: {A: "1"}}`, label: "a", restart: restart},
		{name: "b", index: "30", program: newest, stock: true, config: `{"env": {"B": "1"}}`, label: "b", restart: restart},
		{name: "c", index: "40", program: oldest, stock: true, config: `{"env": {"C": "1"}}`, label: "c", restart: restart},
	}
}

// unkept is how long before a kill -9 what was decided may not have reached the disk: supervisor/state writes within 50 ms, and a busy disk takes its time.
const unkept = 500 * time.Millisecond

// judge checks each container against what the supervisor says, and counts works that are there and that are missed. killed are the moments of a kill -9: of a container that was created right
// before one the supervisor may not know that the work is there.
func (n *node) judge(s *supervisor, all []created, killed ...time.Time) (with, without int) {
	n.t.Helper()
	missed := s.missed()
	for _, c := range all {
		spec := n.spec(c.id)
		for _, l := range []string{"a", "b", "c"} {
			value, reason := spec.env(strings.ToUpper(l)), missed[c.id][l]
			switch {
			case !c.selected(l) && (value != "" || reason != ""):
				n.t.Errorf("container %s was not selected by %s, but it has %q, and missed is %q", c.id, l, value, reason)
			case c.selected(l) && value == "1" && (reason == "" || reason == "supervisor_down" && slices.ContainsFunc(killed, c.rightBefore)):
				with++
			case c.selected(l) && value == "" && reason != "":
				without++
			case c.selected(l):
				n.t.Errorf("container %s was selected by %s: it has %q, and missed is %q", c.id, l, value, reason)
			}
		}
	}
	return with, without
}

// rightBefore reports whether the container may have been created right before the moment.
func (c created) rightBefore(t time.Time) bool {
	return c.begin.Before(t) && c.end.After(t.Add(-unkept))
}

// load creates pods, four at a time, until stopped; those that fail do not count.
type load struct {
	n    *node
	stop chan struct{}
	wg   sync.WaitGroup

	mu   sync.Mutex
	next int
	all  []created
}

func (n *node) startLoad() *load {
	l := &load{n: n, stop: make(chan struct{})}
	for range 3 {
		l.wg.Go(l.work)
	}
	return l
}

func (l *load) work() {
	for {
		select {
		case <-l.stop:
			return
		case <-l.n.t.Context().Done():
			return
		case <-time.After(30 * time.Millisecond):
		}
		l.mu.Lock()
		i := l.next
		l.next++
		l.mu.Unlock()
		c := created{labels: lettered(i), begin: time.Now()}
		id, err := l.n.tryCreate(fmt.Sprint("load-", i), c.labels...)
		c.id, c.end = id, time.Now()
		if err == nil {
			l.mu.Lock()
			l.all = append(l.all, c)
			l.mu.Unlock()
		}
	}
}

// more waits until so many more pods have been created from now on.
func (l *load) more(count int) {
	l.n.t.Helper()
	now := time.Now()
	l.n.eventually(fmt.Sprint(count, " more pods"), func() bool {
		got := 0
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.all {
			if c.begin.After(now) {
				got++
			}
		}
		return got >= count
	})
}

// end stops the load and returns what it made.
func (l *load) end() []created {
	close(l.stop)
	l.wg.Wait()
	return l.all
}

func TestPluginsLiveOnWhenContainerdIsRestartedAndKilledUnderLoad(t *testing.T) {
	n := newNode(t, options{})
	plugins := letters("")
	plugins[1].config = fmt.Sprintf(`{"env": {"B": "1"}, "record": %q}`, n.dir+"/record")
	plugins[1].extra = "  sandbox: {profile: none}" // the others are shut out of the folder with the runtime's sockets
	s := startSupervisor(t, n.configure(manifests(plugins...)))
	s.ready(1, "a", "b", "c")
	l := n.startLoad()
	for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL} {
		l.more(6)
		n.stop(sig)
		s.wait(i+1, "runtime lost", nil)
		n.start()
		s.ready(i+2, "a", "b", "c")
	}
	l.more(8)
	all := l.end()
	with, without := n.judge(s, all)
	t.Logf("%d containers; work there %d times, missed %d times", len(all), with, without)
	// A plugin of the SDK keeps its process. A stock one cannot be synchronized twice on one connection, and gets a new one.
	for p, want := range map[string]int{"a": 1, "b": 4, "c": 4} {
		if got := s.count("plugin started", map[string]any{"plugin": p}); got != want {
			t.Errorf("plugin %s was started %d times, want %d", p, got, want)
		}
	}
	// In each epoch, that is from one Synchronize to the next, a container is told once, in the snapshot or by its creation; over all of them each event comes once.
	told, once, epochs := map[string]bool{}, map[string]bool{}, 0
	for _, e := range record(t, n.dir+"/record") {
		switch e.Event {
		case "Synchronize":
			epochs++
			told = map[string]bool{}
		case "SyncContainer", "CreateContainer":
			if told[e.ID] {
				t.Errorf("epoch %d: container %s is told twice", epochs, e.ID)
			}
			told[e.ID] = true
		}
		if key := e.Event + e.ID; e.ID != "" && e.Event != "SyncContainer" {
			if once[key] {
				t.Errorf("%s of %s came twice", e.Event, e.ID)
			}
			once[key] = true
		}
	}
	if epochs < 4 {
		t.Errorf("synchronized %d times, want once for each of 4 starts of containerd", epochs)
	}
	for _, c := range all {
		if c.selected("b") && !told[c.id] && s.missed()[c.id]["b"] == "" {
			t.Errorf("container %s is unknown to b after the last synchronization", c.id)
		}
	}
}

func TestContainersCreatedWhileTheSupervisorIsAwayAreListed(t *testing.T) {
	n := newNode(t, options{})
	dir := n.configure(manifests(letters("")...))
	s := startSupervisor(t, dir)
	s.ready(1, "a", "b", "c")
	l := n.startLoad()
	type gap struct{ from, to time.Time }
	var gaps []gap
	var killed []time.Time
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		l.more(6)
		s.stop(sig)
		from := time.Now()
		if sig == syscall.SIGKILL {
			killed = append(killed, from)
		}
		l.more(8)
		to := time.Now()
		s = startSupervisor(t, dir)
		s.ready(1, "a", "b", "c")
		gaps = append(gaps, gap{from, to})
	}
	l.more(8)
	all := l.end()
	with, without := n.judge(s, all, killed...)
	missed, down := s.missed(), 0
	for _, c := range all {
		for _, g := range gaps {
			if !c.begin.After(g.from) || !c.end.Before(g.to) {
				continue
			}
			for _, p := range []string{"a", "b", "c"} {
				if !c.selected(p) {
					continue
				}
				down++
				if got := missed[c.id][p]; got != "supervisor_down" {
					t.Errorf("container %s, created while the supervisor was away: %s is %q", c.id, p, got)
				}
			}
		}
	}
	t.Logf("%d containers; work there %d times, missed %d times, %d of these wholly while the supervisor was away", len(all), with, without, down)
	if down == 0 {
		t.Error("no selected container was created while the supervisor was away")
	}
	id := n.mustCreate("after", lettered(7)...)
	if spec := n.spec(id); spec.env("A")+spec.env("B")+spec.env("C") != "111" {
		t.Errorf("afterwards a container has %v, and missed is %v", spec.Process.Env, s.missed()[id])
	}
}
