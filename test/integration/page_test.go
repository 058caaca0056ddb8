package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// pageView is what the status page reads.
type pageView struct {
	Level, Verdict string
	Judged         []struct{ Plugin, Level, Why string }
	Plugins        []struct {
		Name, Team, LastError string
		Breaker               struct{ State string }
	}
	MissedContainers []struct{ Namespace, Pod, Container, Plugin, Reason string }
	Latency          map[string][]struct{ Calls, Bad int }
	Decisions        []struct{ Plugin, Pod, Reason string }
}

// TestTheStatusPageShowsTheBrokenPluginItsTeamTheReasonAndThePods: then, when the fault is over, that it is in service again.
func TestTheStatusPageShowsTheBrokenPluginItsTeamTheReasonAndThePods(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	fault := filepath.Join(harness.TempDir(t), "on")
	sup := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t)+fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: sick}
spec:
  team: net
  index: "50"
  exec: {path: %q}
  config: {faults: [{event: CreateContainer, action: "error:broken", whileFile: %q}]}
  selector: {podSelector: {matchLabels: {sick: "yes"}}}
  breaker: {consecutiveFailures: 2, openDuration: 1s, maxOpenDuration: 1s}
`, harness.Plugin(t, "chaos"), fault)))
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	sup.Ready(1, "sick")
	view := func() (v pageView) {
		t.Helper()
		code, body := sup.Get("/status.json")
		if err := json.Unmarshal([]byte(body), &v); code != http.StatusOK || err != nil {
			t.Fatalf("status.json: %d, %v\n%s", code, err, body)
		}
		return v
	}
	n := 0
	create := func() {
		n++
		p := harness.Pod("default", fmt.Sprint("p", n), "sick", "yes")
		if err := rt.RunPod(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Create(t.Context(), p, harness.Container(p, "main")); err != nil {
			t.Fatal(err)
		}
	}
	harness.Eventually(t, "all in service", func() bool { return view().Level == "fine" })
	if err := os.WriteFile(fault, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	create()
	create()
	var v pageView
	harness.Eventually(t, "the page shows the breaker open", func() bool { v = view(); return v.Level == "broken" })
	if v.Verdict != "1 of 2 plugins is broken: sick." || v.Judged[0].Plugin != "sick" || v.Judged[0].Why == "" {
		t.Errorf("the page says %q: %+v", v.Verdict, v.Judged)
	}
	for _, p := range v.Plugins {
		if p.Name == "sick" && (p.Team != "net" || p.LastError == "" || p.Breaker.State == "closed") {
			t.Errorf("the page shows %+v", p)
		}
	}
	if len(v.MissedContainers) != 2 || v.MissedContainers[0].Pod != "p2" || v.MissedContainers[0].Reason != "error" || v.MissedContainers[0].Plugin != "sick" {
		t.Errorf("the page lists %+v as missed, the newest first", v.MissedContainers)
	}
	if len(v.Latency["sick"]) == 0 || len(v.Decisions) == 0 {
		t.Errorf("the page has %d points of latency and %d decisions", len(v.Latency["sick"]), len(v.Decisions))
	}
	if err := os.Remove(fault); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the page shows it in service again", func() bool { create(); return view().Level == "fine" })
}
