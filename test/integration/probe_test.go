package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// probe is a plugin for tests (test/harness/probe) and its record.
type probe struct {
	t    *testing.T
	name string
	file string
}

// probeLine is one line of the record.
type probeLine struct {
	What       string
	ID         string
	Pods       int
	Containers int
	Known      []string
	Bytes      int
	Duplicates int
	Failed     []string
	Err        string
	Config     string
	Env        []string
	FDs        []string
	Plugins    string
	Owners     []string
	At         int64
	PID        int
}

func newProbe(t *testing.T, name string) *probe {
	t.Helper()
	return &probe{t: t, name: name, file: filepath.Join(harness.TempDir(t), name+".jsonl")}
}

// manifest of the probe; config is JSON members of its configuration with a comma before each, extra YAML of its spec. It selects pods with the label probe=NAME unless
// extra has a selector.
func (p *probe) manifest(index, config, extra string) string {
	selector := ""
	if !bytes.Contains([]byte(extra), []byte("selector:")) {
		selector = fmt.Sprintf("selector: {podSelector: {matchLabels: {probe: %s}}}", p.name)
	}
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %[1]s}
spec:
  team: net
  index: %[2]q
  exec: {path: %[3]q, env: [{name: GREETING, value: hello}]}
  config: {"record": %[4]q%[5]s}
  restart: {backoff: 50ms}
  %[6]s
%[7]s
---
`, p.name, index, harness.Probe(p.t), p.file, config, selector, extra)
}

// lines returns what the probe has recorded.
func (p *probe) lines(match func(probeLine) bool) []probeLine {
	p.t.Helper()
	data, err := os.ReadFile(p.file)
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	var out []probeLine
	for line := range bytes.Lines(data) {
		var l probeLine
		if json.Unmarshal(line, &l) == nil && match(l) {
			out = append(out, l)
		}
	}
	return out
}

// wait returns the nth line (from 1) about the event and the id, when it is there. An empty id is any.
func (p *probe) wait(nth int, what, id string) probeLine {
	p.t.Helper()
	var found []probeLine
	harness.Eventually(p.t, fmt.Sprintf("%s of %s in the record of %s", what, id, p.name), func() bool {
		found = p.about(what, id)
		return len(found) >= nth
	})
	return found[nth-1]
}

// about returns the lines about an event and an id.
func (p *probe) about(what, id string) []probeLine {
	p.t.Helper()
	return p.lines(func(l probeLine) bool { return l.What == what && (id == "" || l.ID == id) })
}

// start starts a supervisor with the manifests and waits until the plugins are ready.
func start(t *testing.T, rt *harness.Runtime, teams, manifests string, plugins ...string) *harness.Process {
	t.Helper()
	sup := harness.StartSupervisor(t, rt.Config(teams, manifests))
	rt.WaitSync()
	for _, p := range plugins {
		sup.Ready(1, p)
	}
	return sup
}

// created runs a pod with one container and returns the container and the adjustment.
func created(t *testing.T, rt *harness.Runtime, pod *api.PodSandbox) (*api.Container, *api.CreateContainerResponse) {
	t.Helper()
	c := harness.Container(pod, "main")
	if err := rt.RunPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	rpl, err := rt.Create(t.Context(), pod, c)
	if err != nil {
		t.Fatal(err)
	}
	return c, rpl
}

// shares is a request for CPU shares.
func shares(n uint64) *api.LinuxResources {
	return &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(n)}}
}
