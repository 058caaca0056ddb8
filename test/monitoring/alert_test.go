//go:build monitoring

package monitoring_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// tool is a program that make monitoring has put there.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("NRI_SUPERVISOR_PROMETHEUS"), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; run this by make monitoring", err)
	}
	return path
}

// world is a supervisor with one plugin that fails while a file exists.
func world(t *testing.T) (rt *harness.Runtime, sup *harness.Process, fault string) {
	t.Helper()
	rt = harness.NewRuntime(t)
	fault = filepath.Join(harness.TempDir(t), "on")
	sup = harness.StartSupervisor(t, rt.Config("\n  teams: {net: {contact: \"#net\"}}\n", fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: sick}
spec:
  team: net
  index: "50"
  exec: {path: %q}
  config: {faults: [{event: CreateContainer, action: "error:broken", whileFile: %q}]}
  selector: {}
  breaker: {consecutiveFailures: 3, openDuration: 100ms, maxOpenDuration: 100ms}
`, harness.Plugin(t, "chaos"), fault)))
	rt.WaitSync()
	sup.Ready(1, "sick")
	return rt, sup, fault
}

func TestPromtoolFindsNothingWrongWithTheMetrics(t *testing.T) {
	rt, sup, fault := world(t)
	create(t, rt, 1)
	if err := os.WriteFile(fault, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		create(t, rt, n+2)
	}
	_, text := sup.Get("/metrics")
	cmd := exec.CommandContext(t.Context(), tool(t, "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// create makes a pod with a container.
func create(t *testing.T, rt *harness.Runtime, n int) {
	t.Helper()
	p := harness.Pod("default", fmt.Sprint("p", n))
	c := harness.Container(p, "c")
	if err := rt.RunPod(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Create(t.Context(), p, c); err != nil {
		t.Fatal(err)
	}
}

// prometheus runs with the alerts, whose waiting times are shortened, and returns its address.
func prometheus(t *testing.T, target string) string {
	t.Helper()
	dir := harness.TempDir(t)
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	short := regexp.MustCompile(`(?m)^( *for: ).*$`).ReplaceAllString(string(rules), "${1}1s")
	write(t, filepath.Join(dir, "rules.yaml"), short)
	write(t, filepath.Join(dir, "prometheus.yaml"), fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yaml]
scrape_configs: [{job_name: nri-supervisor, static_configs: [{targets: [%q]}]}]
`, target))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	var log bytes.Buffer
	cmd := exec.Command(tool(t, "prometheus"), "--config.file", filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return address
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// firing are the alerts that fire, with their labels and annotations.
func firing(ctx context.Context, address string) (map[string]map[string]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/alerts", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var body struct {
		Data struct {
			Alerts []struct {
				State               string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, a := range body.Data.Alerts {
		if a.State == "firing" {
			out[a.Labels["alertname"]] = a.Labels
		}
	}
	return out, nil
}

// until asks Prometheus until want holds of what fires; meanwhile happens between two questions.
func until(t *testing.T, what, address string, meanwhile func(n int), want func(map[string]map[string]string) bool) map[string]map[string]string {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last map[string]map[string]string
	var err error
	for n, limit := 0, time.After(2*time.Minute); ; n++ {
		meanwhile(n)
		if last, err = firing(t.Context(), address); err == nil && want(last) {
			return last
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s; firing: %v, last error: %v", what, last, err)
		}
	}
}

func TestAnAlertFiresUnderAFaultAndResolvesAfterIt(t *testing.T) {
	rt, sup, fault := world(t)
	address := prometheus(t, sup.MetricsAddress())
	if err := os.WriteFile(fault, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const alert = "NRIPluginBreakerOpen"
	got := until(t, alert+" fires", address, func(n int) { create(t, rt, n) }, func(f map[string]map[string]string) bool { return f[alert] != nil })
	if l := got[alert]; l["plugin"] != "sick" || l["team"] != "net" || l["instance"] != sup.MetricsAddress() {
		t.Errorf("the alert has the labels %v", l)
	}
	if err := os.Remove(fault); err != nil {
		t.Fatal(err)
	}
	until(t, alert+" resolves", address, func(n int) { create(t, rt, 10_000+n) }, func(f map[string]map[string]string) bool { return f[alert] == nil })
}
