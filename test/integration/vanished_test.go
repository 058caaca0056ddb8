package integration_test

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// story is what each process of the probe was told from the nth line of its record on: the processes in the order in which they appear, by number.
func (p *probe) story(from int) (lines []string, pids []int) {
	p.t.Helper()
	for _, l := range p.lines(func(probeLine) bool { return true })[from:] {
		if l.What == "Configure" || strings.HasPrefix(l.What, "Post") {
			continue
		}
		if !slices.Contains(pids, l.PID) {
			pids = append(pids, l.PID)
		}
		text := l.What
		if l.ID != "" {
			text += " " + l.ID
		}
		if l.What == "Synchronize" {
			slices.Sort(l.Known)
			text = strings.Join(append([]string{text}, l.Known...), " ")
		}
		lines = append(lines, text)
	}
	return lines, pids
}

// TestPluginsKeepTheirProcessesAndHearWhatVanishedWithTheRuntime: however the runtime was away, and however often. A stock plugin, which can be told the state only once, hears of what
// vanished before its process is replaced.
func TestPluginsKeepTheirProcessesAndHearWhatVanishedWithTheRuntime(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sdk, stock := newProbe(t, "sdk"), newProbe(t, "stock")
	both := "  selector: {podSelector: {matchLabels: {probe: both}}}"
	manifests := sdk.manifest("10", "", both) + strings.Replace(stock.manifest("20", "", both), "exec: {path:", "exec: {protocol: nri, path:", 1)
	halfway := 0
	rt.Intercept(func(n int, c net.Conn) bool { // n counts from the first connection of all
		if n != halfway {
			return false
		}
		harness.Halfway{CloseAfterRegister: true}.Serve(t, c)
		return true
	})
	sup := start(t, rt, teams, manifests, "sdk", "stock")
	pid := sup.PluginPID("sdk")
	stays := harness.Pod("default", "stays", "probe", "both")
	main := harness.Container(stays, "main")
	if err := rt.RunPod(t.Context(), stays); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Create(t.Context(), stays, main); err != nil {
		t.Fatal(err)
	}
	away := func(gap time.Duration, then func()) func() {
		return func() {
			rt.Stop()
			<-time.After(gap) // it is what is tried
			then()
			rt.Start()
		}
	}
	const registration = 30 * time.Second
	for i, tt := range []struct {
		name  string
		away  func()
		dials int
	}{
		{"connection cut", rt.Cut, 1},
		{"back at once", away(0, func() {}), 1},
		{"back after a moment, as another version", away(200*time.Millisecond, func() { rt.Upgrade("2.0.0") }), 1},
		{"back after two seconds", away(2*time.Second, func() {}), 1},
		{"back, and gone again in the middle of a registration", away(0, func() { halfway = rt.Dials() + 1 }), 2},
	} {
		name := strings.ReplaceAll(tt.name, " ", "-")
		goes := harness.Pod("default", name, "probe", "both")
		gone, other := harness.Container(goes, "main"), harness.Container(stays, name)
		if err := rt.RunPod(t.Context(), goes); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			pod *api.PodSandbox
			ctr *api.Container
		}{{goes, gone}, {stays, other}} {
			if _, err := rt.Create(t.Context(), c.pod, c.ctr); err != nil {
				t.Fatal(err)
			}
		}
		sdk.wait(1, "PostCreateContainer", other.GetId())
		stock.wait(1, "PostCreateContainer", other.GetId())
		before := map[*probe]int{}
		for _, p := range []*probe{sdk, stock} {
			before[p] = len(p.lines(func(probeLine) bool { return true }))
		}
		dials := rt.Dials()
		rt.Forget(goes)
		rt.Lose(gone, other)
		begin := time.Now()
		tt.away()
		rt.WaitSync()
		if took := time.Since(begin); took > registration {
			t.Errorf("%s: registered after %s", tt.name, took)
		}
		sup.Ready(i+2, "sdk")
		sup.Ready(i+2, "stock")
		if n := rt.Dials() - dials; n != tt.dials {
			t.Errorf("%s: %d connections, want %d", tt.name, n, tt.dials)
		}
		vanished := []string{
			"StopContainer " + gone.GetId(), "StopPodSandbox " + goes.GetId(), "RemoveContainer " + gone.GetId(), "RemovePodSandbox " + goes.GetId(),
			"StopContainer " + other.GetId(), "RemoveContainer " + other.GetId(), "Synchronize " + main.GetId(),
		}
		for p, processes := range map[*probe]int{sdk: 1, stock: 2} {
			got, pids := p.story(before[p])
			if diff := cmp.Diff(vanished, got); diff != "" || len(pids) != processes {
				t.Errorf("%s: %s was told, in %d processes (-want +got):\n%s", tt.name, p.name, len(pids), diff)
			}
		}
	}
	if got := sup.PluginPID("sdk"); got != pid {
		t.Errorf("the plugin is process %d, was %d", got, pid)
	}
	var status struct{ Runtime struct{ Version string } }
	sup.Ask(&status, "status")
	if status.Runtime.Version != "2.0.0" {
		t.Errorf("the runtime is said to be %q", status.Runtime.Version)
	}
}

// TestARuntimeThatWasAwayForLongIsFoundWithinSeconds: the wait between attempts does not grow with the time.
func TestARuntimeThatWasAwayForLongIsFoundWithinSeconds(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "waits")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "waits")
	pid := sup.PluginPID("waits")
	rt.Stop()
	sup.WaitLine(1, "runtime lost", nil)
	<-time.After(30 * time.Second) // it is what is tried; nothing runs meanwhile
	rt.Start()
	rt.WaitSync()
	sup.Ready(2, "waits")
	if got := sup.PluginPID("waits"); got != pid || rt.Dials() != 2 {
		t.Errorf("the plugin is process %d, was %d; %d connections, want 2", got, pid, rt.Dials())
	}
}
