package ui_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// world is a node with the plugins of four teams: netpol is healthy, gpu-env hangs while a file exists, volume-tags errs in pods that ask for it, and image-audit is there to be
// switched off.
type world struct {
	t    *testing.T
	rt   *harness.Runtime
	sup  *harness.Process
	hang string // the file
	pods int
}

const teams = `
  teams:
    network: {contact: "#net-oncall"}
    ml-infra: {contact: "#ml-infra-oncall"}
    storage: {contact: "storage@example.com"}
    security: {contact: "#security"}
`

// The timeouts are longer than a healthy plugin ever takes. A plugin that was killed waits for ten minutes, so that what a test looks at stays; somebody who restarts it by hand does not wait.
const manifests = `apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: netpol}
spec:
  team: network
  index: "20"
  exec: {path: %[1]q}
  config: {env: {POLICY: "on"}}
  timeouts: {default: 1s}
  selector: {}
---
apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: gpu-env}
spec:
  team: ml-infra
  index: "40"
  exec: {path: %[2]q}
  config: {faults: [{event: CreateContainer, action: hang, whileFile: %[3]q}]}
  selector: {namespaces: {include: ["ml-*"]}}
  timeouts: {default: 1s}
  overdueAfter: 1500ms
  restart: {backoff: 10m, maxBackoff: 10m}
---
apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: volume-tags}
spec:
  team: storage
  index: "60"
  exec: {path: %[2]q}
  config: {faults: [{event: CreateContainer, action: %[4]q, annotation: volume=broken}]}
  timeouts: {default: 1s}
  selector: {namespaces: {include: [shop]}}
---
apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: image-audit}
spec:
  team: security
  index: "80"
  exec: {path: %[1]q}
  config: {annotations: {audited: "yes"}}
  timeouts: {default: 1s}
  selector: {namespaces: {include: ["ml-*"]}}
`

// markup is what volume-tags says is wrong. A page that takes it for HTML has an element with the id injected, and runs the code.
const markup = `<b id=injected onmouseover=alert(1)>no volume</b><script>window.ran = true</script>`

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, rt: harness.NewRuntime(t), hang: filepath.Join(harness.TempDir(t), "hang")}
	w.sup = harness.StartSupervisor(t, w.rt.Config(teams, fmt.Sprintf(manifests, harness.Plugin(t, "env-injector"), harness.Plugin(t, "chaos"), w.hang, "error:"+markup)))
	w.rt.WaitSync()
	for _, name := range []string{"netpol", "gpu-env", "volume-tags", "image-audit"} {
		w.sup.Ready(1, name)
	}
	for range 6 {
		w.create("shop", "web", "")
		w.create("ml-training", "bert", "")
	}
	return w
}

// create creates a pod with a container. Its name is numbered.
func (w *world) create(namespace, name, volume string) {
	w.t.Helper()
	w.pods++
	p := harness.Pod(namespace, fmt.Sprintf("%s-%d", name, w.pods))
	p.Annotations["volume"] = volume
	if err := w.rt.RunPod(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.rt.Create(w.t.Context(), p, harness.Container(p, "main")); err != nil {
		w.t.Fatal(err)
	}
}

// hangs makes gpu-env hang in a container, and returns when its breaker is open and its process gone.
func (w *world) hangs() {
	w.t.Helper()
	if err := os.WriteFile(w.hang, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.create("ml-training", "bert", "")
	w.sup.WaitLine(1, "circuit breaker changed", map[string]any{"plugin": "gpu-env", "to": "open"})
	w.sup.WaitLine(1, "plugin changed state", map[string]any{"plugin": "gpu-env", "to": "backoff"})
	w.create("ml-training", "bert", "")
}

// mended ends the fault and has the plugin started again by hand.
func (w *world) mended() {
	w.t.Helper()
	if err := os.Remove(w.hang); err != nil {
		w.t.Fatal(err)
	}
	w.operate("plugin", "restart", "gpu-env")
	w.sup.Ready(2, "gpu-env")
	w.create("ml-training", "bert", "") // the half-open breaker's trial
}

func (w *world) operate(args ...string) {
	w.t.Helper()
	if code, stdout, stderr := w.sup.Command(args...); code != 0 {
		w.t.Fatalf("nri-supervisor %v: exit code %d\n%s%s", args, code, stdout, stderr)
	}
}
