package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// newest is the stock plugin built with the newest version of NRI, oldest with the oldest one that is supported.
const (
	newest = "stock-nri012"
	oldest = "stock-nri08"
)

// kind is a way in which a plugin is hosted: who plays it, and how its faults are asked for.
type kind struct {
	name     string
	stock    bool
	attached bool
	plain    string // the program that sets A=NAME
	faulty   string
	config   func(name, fault string) string
}

func kinds() []kind {
	sdk := func(name, fault string) string {
		if fault == "" {
			return fmt.Sprintf(`{env: {%s: "1"}}`, name)
		}
		return fmt.Sprintf(`{name: %s, faults: [{event: CreateContainer, action: %s}]}`, name, fault)
	}
	stock := func(name, fault string) string {
		return fmt.Sprintf(`{"env": {%q: "1"}, "fault": %q}`, name, fault)
	}
	return []kind{
		{"sdk", false, false, "env-injector", "chaos", sdk},
		{"stock", true, false, newest, newest, stock},
		{"old", true, false, oldest, oldest, stock},
		{"attached", false, true, newest, newest, stock},
	}
}

// TestOnlyContainersThatSelectedAFaultyPluginLackItsWork has plugins of each kind, healthy ones and one for each fault, and pods that select each alone and together with the healthy ones.
func TestOnlyContainersThatSelectedAFaultyPluginLackItsWork(t *testing.T) {
	n := newNode(t, options{})
	var all []manifest
	var names []string
	faults := map[string]string{"hang": "timeout", "exit": "unavailable", "error": "error"} // and the reason in `missed`
	for i, k := range kinds() {
		index := 20 + 10*i
		all = append(all, manifest{name: "good-" + k.name, index: fmt.Sprint(index), program: k.plain, stock: k.stock, attached: k.attached, config: k.config("GOOD_"+strings.ToUpper(k.name), ""), label: "good"})
		names = append(names, "good-"+k.name)
		for fault := range faults {
			index++
			all = append(all, manifest{
				name: fault + "-" + k.name, team: "net", index: fmt.Sprint(index), program: k.faulty, stock: k.stock, attached: k.attached, config: k.config("BAD", fault), label: fault + "-" + k.name,
				extra: "  timeouts: {default: 300ms}\n  overdueAfter: 2s",
			})
			names = append(names, fault+"-"+k.name)
		}
	}
	s := startSupervisor(t, n.configure(manifests(all...)))
	for _, m := range all {
		if m.attached {
			s.attach(n, m)
		}
	}
	s.ready(1, names...)

	good := n.mustCreate("good", "good", "yes")
	for _, k := range kinds() {
		if key := "GOOD_" + strings.ToUpper(k.name); !n.has(good, key, "1") || n.spec(good).env(key) != "1" {
			t.Errorf("the container that the healthy %s plugin selected has no %s=1: %v", k.name, key, n.spec(good).Process.Env)
		}
	}
	for _, k := range kinds() {
		for fault, reason := range faults {
			name := fault + "-" + k.name
			begin := time.Now()
			id := n.mustCreate(name, name, "yes", "good", "yes")
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("%s: creating the pod took %s", name, took)
			}
			env := n.spec(id).Process.Env
			if !slices.Contains(env, "GOOD_STOCK=1") || !slices.Contains(env, "GOOD_SDK=1") || slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "BAD") || strings.HasPrefix(kv, "CHAOS") }) {
				t.Errorf("%s: the container that a healthy and a faulty plugin selected has %v", name, env)
			}
			if got := s.missed()[id]; len(got) != 1 || got[name] != reason {
				t.Errorf("%s: missed work is %v, want %s for %s alone", name, got, reason, name)
			}
			other := n.mustCreate("beside-" + name)
			if env := n.spec(other).Process.Env; slices.ContainsFunc(env, func(kv string) bool { return strings.Contains(kv, "GOOD") || strings.Contains(kv, "BAD") }) {
				t.Errorf("%s: a container that nobody selected has %v", name, env)
			}
			if got := s.missed()[other]; got != nil {
				t.Errorf("%s: a container that nobody selected lacks the work of %v", name, got)
			}
		}
	}
	for _, k := range kinds() {
		s.wait(1, "plugin exited", map[string]any{"plugin": "hang-" + k.name, "reason": "hung"})
		s.ready(2, "hang-"+k.name, "exit-"+k.name)
	}
	if got := s.count("runtime lost", nil); got != 0 {
		t.Errorf("the runtime was lost %d times", got)
	}
}

// TestOfTwoPluginsThatSetTheSameFieldOneIsDropped has an SDK and a stock plugin set the same variable; stock NRI fails such a pod.
func TestOfTwoPluginsThatSetTheSameFieldOneIsDropped(t *testing.T) {
	n := newNode(t, options{})
	s := startSupervisor(t, n.configure(manifests(
		manifest{name: "first", index: "20", program: "env-injector", config: `{env: {C: first, FIRST: "1"}}`, label: "first"},
		manifest{name: "second", index: "21", program: oldest, stock: true, config: `{"env": {"C": "second", "SECOND": "1"}}`, label: "second"},
		manifest{name: "third", index: "22", program: newest, stock: true, config: `{"env": {"C": "third"}, "remove": ["C"]}`, label: "third"},
	)))
	s.ready(1, "first", "second", "third")
	for _, c := range []struct {
		labels []string
		want   map[string]string
		missed string
	}{
		{[]string{"first", "yes"}, map[string]string{"C": "first", "FIRST": "1", "SECOND": ""}, ""},
		{[]string{"second", "yes"}, map[string]string{"C": "second", "FIRST": "", "SECOND": "1"}, ""},
		{[]string{"first", "yes", "second", "yes"}, map[string]string{"C": "first", "FIRST": "1", "SECOND": ""}, "second"},
	} {
		id := n.mustCreate(fmt.Sprint("pod-", len(c.labels), c.labels[0]), c.labels...)
		for key, value := range c.want {
			if got := n.spec(id).env(key); got != value {
				t.Errorf("%v: %s is %q, want %q", c.labels, key, got, value)
			}
			if value != "" && !n.has(id, key, value) {
				t.Errorf("%v: exec in the container does not see %s=%s", c.labels, key, value)
			}
		}
		got := s.missed()[id]
		if c.missed == "" && got != nil || c.missed != "" && (len(got) != 1 || got[c.missed] != "conflict") {
			t.Errorf("%v: missed work is %v, want %q for its conflict", c.labels, got, c.missed)
		}
	}
}

// TestWhatAPluginSetsIsInTheContainer looks at each adjustment from inside the container and in the runtime spec on disk.
func TestWhatAPluginSetsIsInTheContainer(t *testing.T) {
	n := newNode(t, options{})
	shared := n.dir + "/shared"
	write(t, shared+"/hello", "from the host")
	hook := n.dir + "/hook"
	write(t, hook, "#!/bin/sh\necho ran >"+n.dir+"/hook-ran\n")
	config := fmt.Sprintf(`{"env": {"A": "1"}, "mount": {"source": %q, "destination": "/shared"}, "device": {"path": "/dev/extra", "type": "c", "major": 1, "minor": 3},
		"rlimit": {"type": "RLIMIT_NOFILE", "limit": 512}, "hook": %q, "memory": 33554432}`, shared, hook)
	s := startSupervisor(t, n.configure(manifests(
		manifest{name: "all", index: "20", program: newest, stock: true, config: config, label: "all"},
		manifest{name: "limits", index: "30", program: oldest, stock: true, config: `{"afterStart": 50331648}`, label: "limits"},
	)))
	s.ready(1, "all", "limits")
	id := n.mustCreate("all", "all", "yes")
	if got := n.exec(id, "/bin/cat", "/shared/hello"); got != "from the host" {
		t.Errorf("the mounted file holds %q", got)
	}
	if got := n.exec(id, "/bin/ls", "/dev/extra"); !strings.Contains(got, "/dev/extra") || strings.Contains(got, "No such") {
		t.Errorf("the device: %q", got)
	}
	if got := n.exec(id, "/bin/sh", "-c", "ulimit -n"); strings.TrimSpace(got) != "512" {
		t.Errorf("open files are limited to %q", got)
	}
	if !n.has(id, "A", "1") {
		t.Error("no A=1")
	}
	n.eventually("the hook ran", func() bool { return read(n.dir+"/hook-ran") == "ran\n" })
	spec := n.spec(id)
	if spec.Hooks.Poststart == nil || spec.Hooks.Poststart[len(spec.Hooks.Poststart)-1].Path != hook {
		t.Errorf("hooks are %v", spec.Hooks)
	}
	if got := n.memoryLimit(id); got != 64<<20 {
		t.Errorf("before an update the memory limit is %d", got)
	}
	n.updateMemory(id, 40<<20)
	if got := n.memoryLimit(id); got != 32<<20 {
		t.Errorf("after an update to 40 MiB that the plugin changes to 32 MiB the limit is %d", got)
	}

	limits := n.mustCreate("limits", "limits", "yes")
	n.eventually("the limit that the plugin asked for is in the control group", func() bool { return n.memoryLimit(limits) == 48<<20 })
	plain := n.mustCreate("plain")
	n.updateMemory(plain, 40<<20)
	if got := n.memoryLimit(plain); got != 40<<20 {
		t.Errorf("the limit of a container that nobody selected is %d", got)
	}
	if len(s.missed()) > 0 {
		t.Errorf("missed work: %v", s.missed())
	}
}
