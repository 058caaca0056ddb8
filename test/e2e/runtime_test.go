package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTheRuntimesRequestTimeoutIsKept(t *testing.T) {
	for _, tt := range []struct {
		timeout, fault, plugin string
		works                  bool
	}{
		{"200ms", "hang", "100ms", false},
		{"200ms", "hang", "500ms", false}, // longer than the runtime would wait
		{"5s", "slow:2500ms", "4s", true}, // longer than the runtime waits by default
	} {
		t.Run(tt.timeout+" for a plugin with "+tt.plugin, func(t *testing.T) {
			n := newNode(t, options{timeout: tt.timeout})
			s := startSupervisor(t, n.configure(manifests(
				manifest{name: "good", index: "20", program: "env-injector", config: `{env: {GOOD: "1"}}`, label: "good"},
				manifest{name: "slow", index: "30", program: newest, stock: true, config: `{"env": {"SLOW": "1"}, "fault": "` + tt.fault + `"}`, label: "slow", extra: "  timeouts: {default: " + tt.plugin + "}"},
			)))
			s.ready(1, "good", "slow")
			id := n.mustCreate("slow", "slow", "yes")
			if got := n.spec(id).env("SLOW") == "1"; got != tt.works {
				t.Errorf("the slow plugin's work is there: %t", got)
			}
			if got := len(s.missed()[id]) == 0; got != tt.works {
				t.Errorf("missed work: %v", s.missed()[id])
			}
			n.mustCreate("plain")
			n.eventually("a container has the healthy plugin's work", func() bool {
				return n.spec(n.mustCreate("good"+time.Now().Format("150405.000000"), "good", "yes")).env("GOOD") == "1"
			})
			if got := s.runtime().RequestTimeout; got != tt.timeout {
				t.Errorf("status says that the runtime gives %q a request", got)
			}
		})
	}
}

func TestWithoutNRIPodsRunAndTheSupervisorWaits(t *testing.T) {
	n := newNode(t, options{disabled: true})
	s := startSupervisor(t, n.configure(manifests(letters("")...)))
	before := n.mustCreate("before", lettered(7)...)
	n.eventually("status says why there is no runtime", func() bool {
		r := s.runtime()
		return !r.Connected && r.Reason == "missing" && strings.Contains(r.Hint, "NRI")
	})
	n.stop(syscall.SIGTERM)
	n.options.disabled = false
	n.start()
	s.ready(1, "a", "b", "c")
	after := n.mustCreate("after", lettered(7)...)
	if n.spec(before).env("A") != "" || n.spec(after).env("A") != "1" {
		t.Errorf("A is %q before NRI is enabled and %q after", n.spec(before).env("A"), n.spec(after).env("A"))
	}
	if got := s.missed(); got[before]["a"] == "" || got[after] != nil {
		t.Errorf("missed work: %v; before %s, after %s", got, before, after)
	}
}

func TestARuntimeThatRequiresTheSupervisorCreatesNothingWithoutIt(t *testing.T) {
	n := newNode(t, options{required: []string{"nri-supervisor"}})
	if _, err := n.tryCreate("nobody"); err == nil || !strings.Contains(err.Error(), "nri-supervisor") {
		t.Errorf("without the supervisor a container ends with %v", err)
	}
	dir := n.configure(manifests(
		manifest{name: "good", index: "20", program: "env-injector", config: `{env: {GOOD: "1"}}`, label: "good"},
		manifest{name: "hangs", index: "30", program: newest, stock: true, config: `{"fault": "hang"}`, label: "hangs", extra: "  timeouts: {default: 300ms}\n  overdueAfter: 1s"},
	))
	s := startSupervisor(t, dir)
	s.ready(1, "good", "hangs")
	n.mustCreate("plain")
	if !n.has(n.mustCreate("good", "good", "yes"), "GOOD", "1") {
		t.Error("no GOOD=1")
	}
	n.mustCreate("hangs", "hangs", "yes")
	n.mustCreate("still")
	s.stop(syscall.SIGKILL)
	n.eventually("the runtime notices", func() bool {
		_, err := n.tryCreate("dead" + time.Now().Format("150405.000000"))
		return err != nil
	})
	s = startSupervisor(t, dir)
	s.ready(1, "good", "hangs")
	n.mustCreate("again")
}

// TestOtherPluginsOfTheRuntimeBeforeAndAfterAreLeftAlone has plugins that the runtime starts itself, with lower and higher indexes than the supervisor.
func TestOtherPluginsOfTheRuntimeBeforeAndAfterAreLeftAlone(t *testing.T) {
	neighbour := filepath.Join(bin, newest)
	n := newNode(t, options{
		plugins: map[string]string{"10-before": neighbour, "90-after": neighbour},
		configs: map[string]string{
			"10-before": `{"env": {"BEFORE": "1", "X": "before"}}`,
			"90-after":  `{"env": {"AFTER": "1", "Y": "after"}, "remove": ["Y"]}`,
		},
	})
	s := startSupervisor(t, n.configure(manifests(
		manifest{name: "mine", index: "20", program: "env-injector", config: `{env: {MINE: "1", Y: mine}}`, label: "mine"},
		manifest{name: "replaces", index: "30", program: newest, stock: true, config: `{"env": {"X": "replaced"}, "remove": ["X"]}`, label: "replaces"},
		manifest{name: "clashes", index: "40", program: "env-injector", config: `{env: {X: clashed}}`, label: "clashes"},
	)))
	s.ready(1, "mine", "replaces", "clashes")
	for _, tt := range []struct {
		labels []string
		want   map[string]string
	}{
		{nil, map[string]string{"BEFORE": "1", "AFTER": "1", "MINE": "", "X": "before", "Y": "after"}},
		{[]string{"mine", "yes"}, map[string]string{"BEFORE": "1", "AFTER": "1", "MINE": "1", "X": "before", "Y": "after"}},
		{[]string{"mine", "yes", "replaces", "yes"}, map[string]string{"BEFORE": "1", "AFTER": "1", "MINE": "1", "X": "replaced", "Y": "after"}},
	} {
		id := n.mustCreate("pod-"+strings.Join(tt.labels, "-"), tt.labels...)
		for key, value := range tt.want {
			if got := n.spec(id).env(key); got != value {
				t.Errorf("%v: %s is %q, want %q", tt.labels, key, got, value)
			}
		}
	}
	// Between two plugins of the runtime a conflict is the runtime's: it fails the container, and says who is to blame. Nobody else notices.
	if _, err := n.tryCreate("clashes", "clashes", "yes"); err == nil || !strings.Contains(err.Error(), "nri-supervisor") || !strings.Contains(err.Error(), "before") {
		t.Errorf("a variable of a plugin before the supervisor, set again without a removal: %v", err)
	}
	n.mustCreate("last")
}
