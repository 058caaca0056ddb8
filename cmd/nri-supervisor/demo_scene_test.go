package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// demoScene is a pair of passes in which everything went as promised, for a test to spoil. Waits are 1 ms; one hang cost net-tuner's first pod in the faults its timeout.
type demoScene struct {
	base, pass *demoPass
	counts     map[string]int // metrics, by name with labels
}

func newDemoScene(t *testing.T) *demoScene {
	t.Helper()
	s := &demoScene{
		base:   &demoPass{hosted: []demoPlugin{demoGPU()}, pods: demoStream(1, demoLeast, 50), containers: map[int]demoContainer{}},
		pass:   &demoPass{hosted: demoPlugins(), pods: demoStream(1, demoLeast, 50), containers: map[int]demoContainer{}, registrations: 1},
		counts: map[string]int{"runtime_sessions_total": 1},
	}
	s.base.stream, s.pass.stream = demoLeast, demoLeast
	s.pass.probes, s.pass.known = map[string]int{}, map[string][]string{}
	for _, pl := range demoBroken() {
		probe := demoProbe(pl, len(s.pass.pods))
		s.pass.pods = append(s.pass.pods, probe)
		s.pass.probes[pl.name] = probe.Number
		s.count("plugin_exits_total", 1, "plugin", pl.name, "reason", map[string]string{"hang": "hung", "panic": "exit_code"}[pl.action])
		s.count("breaker_transitions_total", 1, "plugin", pl.name, "to", "open")
		s.count("breaker_transitions_total", 1, "plugin", pl.name, "to", "closed")
	}
	hung := false
	for _, p := range s.pass.pods {
		begin := time.Duration(p.Number+1) * time.Second
		c := demoContainer{Number: p.Number, Arrived: begin, CreateBegin: begin, CreateEnd: begin + time.Millisecond/2, Started: begin + time.Millisecond}
		missing := map[string]string{}
		if p.Number > 100 && p.Number < 200 {
			for _, pl := range demoBroken() {
				switch {
				case !pl.selects(p):
				case pl.action == "hang" && !hung:
					hung = true
					missing[pl.name] = "timeout"
					c.CreateEnd, c.Started = begin+demoTimeout, begin+demoTimeout+time.Millisecond
				case pl.action == "hang":
					missing[pl.name] = "busy"
				default:
					missing[pl.name] = "unavailable"
				}
			}
		}
		c.Reply = demoReplyBytes(t, p, demoPlugins(), missing)
		s.pass.containers[p.Number] = c
		if p.Life == 0 {
			s.pass.live = append(s.pass.live, p.Number)
		}
		for plugin, reason := range missing {
			s.miss(p, plugin, reason)
		}
		if p.Number < demoLeast {
			b := c
			b.CreateEnd, b.Started = begin+time.Millisecond/2, begin+time.Millisecond
			b.Reply = demoReplyBytes(t, p, []demoPlugin{demoGPU()}, nil)
			s.base.containers[p.Number] = b
		}
	}
	for _, pl := range demoPlugins() {
		s.count("plugin_up", 1, "plugin", pl.name)
		s.count("breaker_state", 1, "plugin", pl.name, "state", "closed")
		s.count("plugin_starts_total", 2, "plugin", pl.name, "result", "success")
		if pl.action != "" {
			s.pass.known[pl.name] = s.pass.liveOf(pl)
		}
	}
	return s
}

// miss tells of missing work in every place where it is told.
func (s *demoScene) miss(p demoPod, plugin, reason string) {
	s.pass.lines = append(s.pass.lines, demoLine{Msg: demoMsgMissing, Plugin: plugin, ContainerID: p.id(), Event: "CreateContainer", Reason: reason})
	s.count("containers_missed_total", 1, "plugin", plugin, "reason", reason)
	if p.Life == 0 {
		s.pass.records = append(s.pass.records, supervisor.MissedWork{Plugin: plugin, ContainerID: p.id(), Reason: reason})
	}
}

// count adds to a metric.
func (s *demoScene) count(name string, n int, labels ...string) {
	var pairs []string
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
	}
	if len(pairs) > 0 {
		name += "{" + strings.Join(pairs, ",") + "}"
	}
	s.counts[name] += n
}

// judge judges the scene.
func (s *demoScene) judge(t *testing.T) (*demoResult, error) {
	t.Helper()
	var text strings.Builder
	for series, n := range s.counts {
		fmt.Fprintf(&text, "nri_supervisor_%s %d\n", series, n)
	}
	m, err := parseDemoMetrics(text.String())
	if err != nil {
		t.Fatal(err)
	}
	s.pass.metrics = m
	return judgeDemo(s.base, s.pass)
}

// find returns the first pod of the stream, from a number on, that holds.
func (s *demoScene) find(t *testing.T, from int, holds func(demoPod) bool) demoPod {
	t.Helper()
	for _, p := range s.pass.pods[from:s.pass.stream] {
		if holds(p) {
			return p
		}
	}
	t.Fatal("the stream has no such pod")
	return demoPod{}
}

// change changes what the runtime saw of a container.
func (s *demoScene) change(p demoPod, f func(*demoContainer)) {
	c := s.pass.containers[p.Number]
	f(&c)
	s.pass.containers[p.Number] = c
}

func demoReplyBytes(t *testing.T, p demoPod, plugins []demoPlugin, missing map[string]string) []byte {
	t.Helper()
	adjust := &api.ContainerAdjustment{}
	var missed []string
	for _, pl := range plugins {
		switch {
		case !pl.selects(p):
		case missing[pl.name] != "":
			missed = append(missed, pl.name+"="+missing[pl.name])
		default:
			key, value, _ := strings.Cut(pl.env, "=")
			adjust.AddEnv(key, value)
		}
	}
	if len(missed) > 0 {
		adjust.AddAnnotation("nri-supervisor.dev/missed", strings.Join(missed, ","))
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&api.CreateContainerResponse{Adjust: adjust})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
