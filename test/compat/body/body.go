package body

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

const memory = 33554432

// life is what a runtime does with a pod and its container, and what a plugin that selected them hears of it, in that order.
var life = []string{ //nolint:gochecknoglobals // constant
	"RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer", "UpdateContainer", "PostUpdateContainer",
	"StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
}

// Run is the test of one version.
func Run(t *testing.T) {
	dir, programs := folder(t), build(t)
	r := newRuntime(t, dir)
	heard := dir + "/heard"
	r.pods = append(r.pods, pod("p0", "stock"))
	r.ctrs = append(r.ctrs, container("p0", "c0"), container("other", "c9"))
	r.pods = append(r.pods, pod("other", "nobody"))
	s := start(t, dir, r.socket, programs,
		plugin("sdk", "20", "go-plugin", programs+"/env-injector", `config: {env: {SDK: "1"}}`),
		plugin("stock", "30", "nri", programs+"/stock", fmt.Sprintf("configText: %q", fmt.Sprintf(`{"env": {"STOCK": "1"}, "memory": %d, "afterStart": %d, "record": %q}`, memory, 2*memory, heard))+
			"\n  sandbox: {profile: none}"), // else it is shut out of the folder with the runtime's socket, where its record is
		plugin("hangs", "40", "nri", programs+"/stock", `configText: '{"env": {"HUNG": "1"}, "fault": "hang"}'`),
	)
	for _, p := range []string{"sdk", "stock", "hangs"} {
		s.ready(1, p)
	}
	r.added()
	row := version{attempts: 1 + s.count("runtime not reachable", "reason", "rejected")}
	registered := s.wait(1, "registered with the runtime")
	row.nri = os.Getenv("COMPAT_VERSION")
	row.timeout, _ = registered["requestTimeout"].(string)
	row.events = events(t, fmt.Sprint(registered["events"]))

	r.onlyWhoSelected(t)
	r.aLife(t, s, heard)
	r.restart(t, s, heard)
	row.write(t)
}

// events are the names in a subscription, each of which this version has to know.
func events(t *testing.T, text string) []string {
	t.Helper()
	names := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	mask, err := api.ParseEventMask(names...)
	if err != nil {
		t.Errorf("subscribed to %q, which this version of NRI does not know: %v", text, err)
	}
	if extra := mask &^ api.ValidEvents; extra != 0 {
		t.Errorf("subscribed to the unknown events %#x", extra)
	}
	if len(names) < len(life) {
		t.Errorf("subscribed to %q only", text)
	}
	return names
}

// added waits until the runtime sends events to the supervisor. It adds a plugin to its list after the plugin has answered Synchronize, while further synchronizations are still blocked.
func (r *runtime) added() { r.nri.BlockPluginSync().Unblock() }

// onlyWhoSelected creates containers that healthy plugins, a hanging one and nobody selected.
func (r *runtime) onlyWhoSelected(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		labels []string
		want   []string
	}{
		{nil, nil},
		{[]string{"sdk"}, []string{"SDK=1"}},
		{[]string{"stock"}, []string{"STOCK=1"}},
		{[]string{"sdk", "stock"}, []string{"SDK=1", "STOCK=1"}},
		{[]string{"sdk", "hangs"}, []string{"SDK=1"}},
	} {
		id := "pod-" + strings.Join(c.labels, "-")
		p := pod(id, c.labels...)
		r.call(t, "RunPodSandbox", p, nil)
		rsp := r.call(t, "CreateContainer", p, container(id, "c-"+id))
		var got []string
		for _, kv := range rsp.(*adaptation.CreateContainerResponse).GetAdjust().GetEnv() {
			got = append(got, kv.GetKey()+"="+kv.GetValue())
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("a container of a pod with the labels %v is created with %v, want %v", c.labels, got, c.want)
		}
		r.call(t, "StopPodSandbox", p, nil)
		r.call(t, "RemovePodSandbox", p, nil)
	}
}

// aLife runs a pod through all events and compares what the plugin heard.
func (r *runtime) aLife(t *testing.T, s *supervisor, heard string) {
	t.Helper()
	p, c := pod("p1", "stock"), container("p1", "c1")
	for _, event := range life {
		rsp := r.call(t, event, p, c)
		if event == "CreateContainer" {
			r.mu.Lock()
			r.pods, r.ctrs = append(r.pods, p), append(r.ctrs, c)
			r.mu.Unlock()
		}
		if event == "PostStartContainer" {
			s.eventually("the update that the plugin asked for", func() bool { return r.updated("c1") == 2*memory })
		}
		if rsp, ok := rsp.(*adaptation.UpdateContainerResponse); ok {
			updates := rsp.GetUpdate()
			if len(updates) != 1 || updates[0].GetContainerId() != "c1" || updates[0].GetLinux().GetResources().GetMemory().GetLimit().GetValue() != memory {
				t.Errorf("an update is answered with %v", updates)
			}
		}
	}
	var got []string
	s.eventually("the last event", func() bool {
		got = nil
		for _, e := range record(t, heard) {
			if e.Pod == "p1" {
				got = append(got, e.Event)
			}
		}
		return slices.Contains(got, "RemovePodSandbox")
	})
	if !slices.Equal(got, life) {
		t.Errorf("the plugin heard\n%v, want\n%v", got, life)
	}
	r.mu.Lock()
	r.pods, r.ctrs = r.pods[:len(r.pods)-1], r.ctrs[:len(r.ctrs)-1]
	r.mu.Unlock()
}

// restart ends the runtime and starts it again: the plugins are told what there is.
func (r *runtime) restart(t *testing.T, s *supervisor, heard string) {
	t.Helper()
	r.stop()
	s.wait(1, "runtime lost")
	r.start(t)
	s.wait(2, "registered with the runtime")
	s.ready(2, "stock")
	var synced []string
	for _, e := range record(t, heard) {
		if strings.HasPrefix(e.Event, "Sync") {
			synced = append(synced, e.Event+e.ID+e.Pod)
		}
	}
	want := []string{"Synchronize", "SyncPodp0", "SyncContainerc0p0"}
	if !slices.Equal(synced, append(want, want...)) {
		t.Errorf("the plugin was synchronized with %v, want twice %v", synced, want)
	}
	// A stock plugin cannot be synchronized twice on one connection: it gets a new process. One of the SDK stays.
	for name, want := range map[string]int{"sdk": 1, "stock": 2} {
		if got := s.count("plugin started", "plugin", name); got != want {
			t.Errorf("plugin %s was started %d times, want %d", name, got, want)
		}
	}
}

// version is what was measured of one version.
type version struct {
	nri, timeout string
	attempts     int
	events       []string
}

func (v version) write(t *testing.T) {
	t.Helper()
	classic := append([]string{}, life...)
	var more []string
	for _, e := range v.events {
		if !slices.Contains(classic, e) {
			more = append(more, e)
		}
	}
	slices.Sort(more)
	extra := strings.Join(more, ", ")
	if extra == "" {
		extra = "none"
	}
	line := fmt.Sprintf("| %s | %d | %d | %s | %s |\n", v.nri, v.attempts, len(v.events), extra, v.timeout)
	t.Log(line)
	if path := os.Getenv("COMPAT_ROW"); path != "" && !t.Failed() {
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// event is one line of the plugin's record.
type event struct {
	Event, Pod, ID string
}

func record(t *testing.T, path string) []event {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []event
	for l := range bytes.Lines(data) {
		var e event
		if json.Unmarshal(l, &e) == nil { // the last line may be half written
			all = append(all, e)
		}
	}
	return all
}
