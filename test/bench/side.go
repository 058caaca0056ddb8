package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// patience bounds each wait for processes to come up, on a machine that does other things, too.
const patience = 60 * time.Second

// setup says what is hosted on a side.
type setup struct {
	plugins    int
	builtin    int // in the runtime itself
	work       time.Duration
	slow       time.Duration
	loud       int    // the first so many write without end
	events     bool   // subscribe to every event instead of CreateContainer
	same       bool   // all plugins have the same index and are parallel
	extra      string // of plugin 0's manifest
	containers int    // that exist before anybody registers
	role       string // of their pods; empty: none
}

// side is one simulated runtime, NRI's own adaptation as containerd and CRI-O link it, with plugins directly on its socket or with the supervisor there. The plugins and the
// supervisor are processes of their own.
type side struct {
	name   string
	nri    *adaptation.Adaptation
	socket string
	dir    string
	kids   []*child
	pid    int // of the supervisor
	setup  setup

	lane     sync.Mutex // one event at a time, as in containerd
	starting atomic.Bool
	synced   chan registration // one for each plugin that registers
	pods     []*api.PodSandbox
	ctrs     []*api.Container
}

// registration is how the synchronization of a plugin went, which ends its registration.
type registration struct {
	took time.Duration
	err  error
}

var errNotSynchronized = errors.New("the runtime gave a plugin up that was not synchronized in time")

// newSide starts a runtime that nobody has connected to.
func (b *bench) newSide(name string, s setup) (*side, error) {
	dir, err := os.MkdirTemp("/tmp", "nribench") // short, for sockets
	if err != nil {
		return nil, err
	}
	sd := &side{name: name, socket: filepath.Join(dir, "nri.sock"), dir: dir, setup: s, synced: make(chan registration, 1024)}
	for i := range s.containers {
		pod := typical().pod(fmt.Sprintf("old-%d", i), cmp.Or(s.role, "none"))
		sd.pods, sd.ctrs = append(sd.pods, pod), append(sd.ctrs, typical().container(pod))
	}
	none := filepath.Join(dir, "none")
	sd.nri, err = adaptation.New("bench", "1.0.0", sd.synchronize, sd.update,
		adaptation.WithBuiltinPlugins(builtins(s.builtin)...), adaptation.WithSocketPath(sd.socket), adaptation.WithPluginPath(none), adaptation.WithPluginConfigPath(none))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	sd.starting.Store(true) // it synchronizes the plugins that it launched itself, of which there are none
	err = sd.nri.Start()
	sd.starting.Store(false)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	b.sides = append(b.sides, sd)
	return sd, nil
}

func (sd *side) synchronize(ctx context.Context, cb adaptation.SyncCB) error {
	begin := time.Now()
	_, err := cb(ctx, sd.pods, sd.ctrs)
	if !sd.starting.Load() {
		sd.synced <- registration{time.Since(begin), err}
	}
	return err
}

func (*side) update(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

// await returns when one more plugin has registered, and how long its synchronization took.
func (sd *side) await(ctx context.Context) (time.Duration, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case r := <-sd.synced:
		if r.err != nil {
			return r.took, fmt.Errorf("%w: %d containers: %w", errNotSynchronized, len(sd.ctrs), r.err)
		}
		sd.nri.BlockPluginSync().Unblock() // the adaptation adds the plugin after the callback, under its own lock
		return r.took, nil
	case <-limit.C:
		return 0, fmt.Errorf("%s: no plugin registered in %s", sd.name, patience)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// stock starts a runtime with the plugins directly on its socket.
func (b *bench) stock(ctx context.Context, s setup) (*side, error) {
	sd, err := b.newSide(fmt.Sprintf("stock %d", s.plugins), s)
	if err != nil {
		return nil, err
	}
	for i := range s.plugins {
		if err := b.startPlugin(sd, i); err != nil {
			return nil, err
		}
	}
	for range s.plugins { // they start side by side; the runtime takes one after the other
		if _, err := sd.await(ctx); err != nil {
			return nil, err
		}
	}
	return sd, nil
}

// startPlugin starts a plugin on the side's own socket.
func (b *bench) startPlugin(sd *side, i int) error {
	args := append([]string{"-socket", sd.socket, "-name", pluginName(i), "-index", sd.setup.index(i)}, sd.setup.args(i)...)
	kid, err := b.start(b.plugin, args, nil, nil)
	if err == nil {
		sd.kids = append(sd.kids, kid)
	}
	return err
}

// supervised starts a runtime with the supervisor on its socket, which hosts the plugins.
func (b *bench) supervised(ctx context.Context, s setup) (*side, error) {
	return b.supervisedBy(ctx, b.supervisor, fmt.Sprintf("supervisor %d", s.plugins), s)
}

func (b *bench) supervisedBy(ctx context.Context, binary, name string, s setup) (*side, error) {
	sd, err := b.newSide(name, s)
	if err != nil {
		return nil, err
	}
	_, err = b.supervise(ctx, binary, sd)
	return sd, err
}

// started says when the parts of a supervisor were there, from its start.
type started struct{ registered, ready, synchronize time.Duration }

func (b *bench) supervise(ctx context.Context, binary string, sd *side) (started, error) {
	at, ready, err := b.registered(ctx, binary, sd)
	if err != nil {
		return at, err
	}
	at.ready, err = ready(ctx)
	return at, err
}

// registered starts a supervisor and returns when it has registered, with what waits until all its plugins are ready and says how long that took from the start.
func (b *bench) registered(ctx context.Context, binary string, sd *side) (started, func(context.Context) (time.Duration, error), error) {
	var at started
	config, err := sd.configure(b.plugin)
	if err != nil {
		return at, nil, err
	}
	ready := make(chan struct{}, 4096)
	failed := make(chan string, 1)
	watch := func(line []byte) {
		text := string(line)
		switch {
		case strings.Contains(text, `"msg":"plugin synchronized"`):
			ready <- struct{}{}
		case strings.Contains(text, "defect of nri-supervisor") || strings.HasPrefix(text, "panic:"):
			select {
			case failed <- text:
			default:
			}
		}
	}
	begin := time.Now()
	kid, err := b.start(binary, []string{"run", "--config", config, "--log-format", "json"}, watch, nil)
	if err != nil {
		return at, nil, err
	}
	sd.kids, sd.pid = append(sd.kids, kid), kid.cmd.Process.Pid
	if at.synchronize, err = sd.await(ctx); err != nil {
		return at, nil, fmt.Errorf("%w\n%s", err, kid.last())
	}
	at.registered = time.Since(begin)
	return at, func(ctx context.Context) (time.Duration, error) {
		limit := time.NewTimer(patience)
		defer limit.Stop()
		for range sd.setup.plugins {
			select {
			case <-ready:
			case text := <-failed:
				return 0, errors.New(text)
			case <-limit.C:
				return 0, fmt.Errorf("%s: plugins not ready in %s\n%s", sd.name, patience, kid.last())
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return time.Since(begin), nil
	}, nil
}

func pluginName(i int) string { return fmt.Sprintf("p%02d", i) }

// index gives each plugin a place of its own, in the order of their names, unless all share one.
func (s setup) index(i int) string {
	if s.same {
		return "50"
	}
	return fmt.Sprintf("%02d", i)
}

func (s setup) args(i int) []string {
	args := []string{"-role", pluginName(i)}
	if s.work > 0 {
		args = append(args, "-work", s.work.String())
	}
	if s.slow > 0 && i == 0 {
		args = append(args, "-slow", s.slow.String())
	}
	if i < s.loud {
		args = append(args, "-flood")
	}
	if s.events {
		args = append(args, "-all-events")
	}
	return args
}

// configure writes the supervisor's configuration: each plugin selects the pods of its role and those for all.
func (sd *side) configure(plugin string) (string, error) {
	dirs := filepath.Join(sd.dir, "plugins.d")
	if err := os.MkdirAll(dirs, 0o700); err != nil {
		return "", err
	}
	var b strings.Builder
	for i := range sd.setup.plugins {
		quoted := make([]string, 0, 8)
		for _, a := range sd.setup.args(i) {
			quoted = append(quoted, fmt.Sprintf("%q", a))
		}
		fmt.Fprintf(&b, `---
apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %s}
spec:
  team: bench
  index: %q
  parallel: %t
  exec: {path: %s, protocol: nri, args: [%s]}
  selector: {podSelector: {matchExpressions: [{key: role, operator: In, values: [%s, all]}]}}
`, pluginName(i), sd.setup.index(i), sd.setup.same, plugin, strings.Join(quoted, ", "), pluginName(i))
		if i == 0 {
			b.WriteString(sd.setup.extra)
		}
	}
	if err := os.WriteFile(filepath.Join(dirs, "plugins.yaml"), []byte(b.String()), 0o600); err != nil {
		return "", err
	}
	config := filepath.Join(sd.dir, "config.yaml")
	text := fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Supervisor
spec:
  runtime: {socket: %q}
  pluginDirs: [%q]
  runDir: %q
  stateDir: %q
  metrics: {address: "127.0.0.1:0"}
  fileTrust: "off"
  teams: {bench: {}}
`, sd.socket, dirs, filepath.Join(sd.dir, "run"), filepath.Join(sd.dir, "state"))
	return config, os.WriteFile(config, []byte(text), 0o600)
}

// close ends all processes of the side, the supervisor in order, then its runtime.
func (sd *side) close() {
	for _, k := range sd.kids {
		k.ask()
	}
	for _, k := range sd.kids {
		k.end()
	}
	sd.kids = nil
	sd.nri.Stop()
	_ = os.RemoveAll(sd.dir)
}
