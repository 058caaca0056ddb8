package chaos_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

const teams = `
  teams:
    net: {contact: "#net"}
    ml-infra: {contact: "#ml-infra"}
`

// classes are the sets of healthy plugins that a pod selects by its label healthy.
var classes = []string{"none", "one", "all"}

// healthy are the healthy plugins of a class, as manifests and as plugins of a plain runtime.
type healthy struct {
	index, name, path, config string
	classes                   string // YAML list
}

func healthyPlugins(tb testing.TB) []healthy {
	tb.Helper()
	return []healthy{
		{"20", "gpu-env", harness.Plugin(tb, "env-injector"), `{"env": {"GPU": "1", "LD": "/usr/lib/gpu"}, "annotations": {"gpu": "yes"}}`, "[one, all]"},
		{"30", "devices", harness.Probe(tb), `{"name": "devices", "reserveCPU": true, "adjust": {
			"mounts": [{"destination": "/dev/shm/gpu", "type": "bind", "source": "/var/lib/gpu", "options": ["rbind", "ro"]}],
			"annotations": {"devices": "2"}, "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024}], "CDIDevices": [{"name": "vendor.example/gpu=0"}],
			"linux": {"devices": [{"path": "/dev/gpu0", "type": "c", "major": 195, "minor": 0}], "resources": {"cpu": {"cpus": "0-1"}}}}}`, "[all]"},
		{"90", "trace-env", harness.Plugin(tb, "env-injector"), `{"env": {"TRACE": "on"}}`, "[all]"},
	}
}

func (h healthy) manifest() string {
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %s}
spec:
  team: ml-infra
  index: %q
  exec: {path: %q}
  config: %s
  selector: {podSelector: {matchExpressions: [{key: healthy, operator: In, values: %s}]}}
  timeouts: {default: 1500ms}
---
`, h.name, h.index, h.path, strings.ReplaceAll(h.config, "\t", " "), h.classes)
}

// stocks are, for each class, a runtime without a supervisor that has the healthy plugins of the class attached directly.
type stocks map[string]*harness.Runtime

func newStocks(tb testing.TB) stocks {
	tb.Helper()
	out := stocks{}
	for _, class := range classes {
		var list []harness.Stock
		for _, h := range healthyPlugins(tb) {
			if strings.Contains(h.classes, class) {
				list = append(list, harness.Stock{Index: h.index, Name: h.name, Path: h.path, Config: h.config})
			}
		}
		out[class] = harness.NewStock(tb, list...)
	}
	return out
}

// sick is a plugin that fails while the file of its world exists.
type sick struct {
	name    string
	actions []string // EVENT ACTION of the chaos plugin
	start   string   // what it does before its handshake
	hasty   bool     // it has little time, because its fault is to take long
	extra   string   // more of its spec
	// validates: it is a validator, too.
	validates bool
}

// manifest of the sick plugin. Everything that takes minutes in production is short.
func (s sick) manifest(tb testing.TB, on, dump string) string {
	tb.Helper()
	var faults []string
	for _, a := range s.actions {
		event, action, _ := strings.Cut(a, " ")
		faults = append(faults, fmt.Sprintf("{event: %s, action: %q, whileFile: %q}", event, action, on))
	}
	env := `, env: [{name: GORACE, value: "atexit_sleep_ms=0"}` // a program with the race detector takes a second to exit otherwise
	if s.start != "" {
		env += fmt.Sprintf(", {name: CHAOS_START, value: %q}, {name: CHAOS_START_WHILE, value: %q}", s.start, on)
	}
	env += "]"
	timeouts := "timeouts: {default: 1s}\n  overdueAfter: 3s"
	if s.hasty {
		timeouts = "timeouts: {default: " + ms(300) + "}\n  overdueAfter: " + ms(700)
	}
	if strings.Contains(s.extra, "overdueAfter:") {
		timeouts, _, _ = strings.Cut(timeouts, "\n")
	}
	if strings.Contains(s.extra, "timeouts:") {
		_, rest, _ := strings.Cut(timeouts, "\n")
		timeouts = strings.TrimSpace(rest)
	}
	breaker := "breaker: {openDuration: 200ms, maxOpenDuration: 400ms}"
	if strings.Contains(s.extra, "breaker:") {
		breaker = ""
	}
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %[1]s}
spec:
  team: net
  index: "50"
  exec: {path: %[2]q%[3]s}
  config: {name: %[1]s, dump: %[4]q, validate: %[9]t, faults: [%[5]s]}
  failurePolicy: Ignore
  selector: {podSelector: {matchLabels: {sick: %[1]s}}}
  restart: {backoff: 20ms, maxBackoff: 200ms, crashLoop: {exits: 1000, within: 60s}}
  %[8]s
  %[6]s
  %[7]s
---
`, s.name, harness.Plugin(tb, "chaos"), env, dump, strings.Join(faults, ", "), timeouts, s.extra, breaker, s.validates)
}

// world is one supervisor with the healthy plugins and some sick ones, and what has happened to it.
type world struct {
	t      *testing.T
	rt     *harness.Runtime
	sup    *harness.Process
	stocks stocks
	rng    *rand.Rand
	on     string // the sick plugins fail while this file exists
	dir    string
	sick   []string
	// validators are the sick plugins that validate, too.
	validators map[string]bool
	pods       []*podLife
	calm       []time.Duration // of creations that no sick plugin selected
}

// seed returns what random choices come from, and says it.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("NRI_SUPERVISOR_TEST_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("NRI_SUPERVISOR_TEST_SEED: %v", err)
		}
	}
	t.Logf("seed %d: NRI_SUPERVISOR_TEST_SEED=%d repeats it", n, n)
	return n
}

func newWorld(t *testing.T, st stocks, list ...sick) *world {
	t.Helper()
	return prepareWorld(t, st, harness.Options{}, nil, list...)
}

// prepareWorld is newWorld with options of the supervisor and something to do in its folder before it starts.
func prepareWorld(t *testing.T, st stocks, o harness.Options, prepare func(t *testing.T, dir string), list ...sick) *world {
	t.Helper()
	dir := harness.TempDir(t)
	w := &world{
		t: t, rt: harness.NewRuntime(t), stocks: st, rng: rand.New(rand.NewPCG(seed(t), 1)), on: filepath.Join(dir, "on"), dir: dir, validators: map[string]bool{},
	}
	manifests := ""
	for _, h := range healthyPlugins(t) {
		manifests += h.manifest()
	}
	for _, s := range list {
		manifests += s.manifest(t, w.on, w.dumpFile(s.name))
		w.sick = append(w.sick, s.name)
		w.validators[s.name] = s.validates
	}
	folder := w.rt.Config(teams, manifests)
	if prepare != nil {
		prepare(t, folder)
	}
	w.sup = harness.StartSupervisorWith(t, folder, o)
	w.rt.WaitSync()
	for _, h := range healthyPlugins(t) {
		w.sup.Ready(1, h.name)
	}
	for _, s := range list {
		w.sup.Ready(1, s.name)
	}
	return w
}

func (w *world) dumpFile(plugin string) string { return filepath.Join(w.dir, plugin+".json") }

// begin makes the sick plugins fail from now on.
func (w *world) begin() {
	w.t.Helper()
	if err := os.WriteFile(w.on, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// end lifts the fault.
func (w *world) end() {
	w.t.Helper()
	if err := os.Remove(w.on); err != nil {
		w.t.Fatal(err)
	}
}

// dump is what the chaos plugin writes of what it knows.
type dump struct {
	PID          int                       `json:"pid"`
	Synchronized int                       `json:"synchronized"`
	Pods         []string                  `json:"pods"`
	Containers   []string                  `json:"containers"`
	Snapshot     []string                  `json:"snapshot"`
	Events       map[string]map[string]int `json:"events"`
}

// known asks a sick plugin what it knows.
func (w *world) known(plugin string, signal func(pid int) error) (dump, bool) {
	w.t.Helper()
	file := w.dumpFile(plugin)
	_ = os.Remove(file)
	if signal(w.sup.PluginPID(plugin)) != nil {
		return dump{}, false
	}
	var d dump
	limit := time.After(5 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &d) == nil {
			return d, true
		}
		select {
		case <-tick.C:
		case <-limit:
			return dump{}, false
		}
	}
}
