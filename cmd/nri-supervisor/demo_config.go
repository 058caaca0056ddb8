package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// demoTimeout is how long a broken plugin may keep one event waiting. Its manifest says so; the promises are judged by it.
const demoTimeout = 300 * time.Millisecond

// demoPlace are the files of one pass, all below a folder of its own.
type demoPlace struct{ dir string }

func (p demoPlace) socket() string            { return filepath.Join(p.dir, "nri.sock") }
func (p demoPlace) config() string            { return filepath.Join(p.dir, "config.yaml") }
func (p demoPlace) plugins() string           { return filepath.Join(p.dir, "plugins.d") }
func (p demoPlace) admin() string             { return filepath.Join(p.dir, "run", "admin.sock") }
func (p demoPlace) faults() string            { return filepath.Join(p.dir, "faults-are-on") }
func (p demoPlace) dump(plugin string) string { return filepath.Join(p.dir, plugin+".json") }
func (p demoPlace) pluginConfig(plugin string) string {
	return filepath.Join(p.dir, plugin+".conf")
}

// demoSupervisor is the supervisor's document. Teams are granted what they need and nothing else. fileTrust is off because the demo's one binary is where somebody built it:
// in a checkout that a group may write to, say. Its plugins are not confined: they are its own, and tell it what they see by files in /tmp, of which a confined plugin has its own.
const demoSupervisor = `apiVersion: nri-supervisor.dev/v1alpha1
kind: Supervisor
spec:
  runtime: {socket: %q}
  pluginDirs: [%q]
  runDir: %q
  stateDir: %q
  metrics: {address: "127.0.0.1:0"}
  fileTrust: "off"
  defaults: {sandbox: {profile: none}}
  teams:
    ml-infra: {contact: "#ml-infra", permissions: {adjust: [Env]}}
    network: {contact: "#network", permissions: {adjust: [Env]}}
    storage: {contact: "#storage", permissions: {adjust: [Env]}}
`

// demoManifest is a team's manifest.
const demoManifest = `apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %[1]s}
spec:
  team: %[2]s
  index: %[3]q
  exec: {path: %[4]q, args: [demo, plugin, %[1]s]}
  config: %[5]s
  selector: %[6]s
%[7]s`

// demoGuarded is what a platform team writes for plugins that it does not know well. It is short of patience, so that the demo is short, and not otherwise special.
const demoGuarded = `  timeouts: {default: %s}
  overdueAfter: 1s
  breaker: {openDuration: 1s}
  restart: {backoff: 500ms, maxBackoff: 1s, stableAfter: 5s, crashLoop: {exits: 50, within: 60s, retryEvery: 5s}}
`

// write makes the pass's folder: the supervisor's document, and a manifest for each plugin that the supervisor is to host.
func (p demoPlace) write(self string, hosted []demoPlugin, selectAll bool) error {
	if err := os.MkdirAll(p.plugins(), 0o700); err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	doc := fmt.Sprintf(demoSupervisor, p.socket(), p.plugins(), filepath.Join(p.dir, "run"), filepath.Join(p.dir, "state"))
	if err := demoWrite(p.config(), doc); err != nil {
		return err
	}
	for _, pl := range hosted {
		config, err := p.pluginDocument(pl)
		if err != nil {
			return err
		}
		selector, guarded := fmt.Sprintf("{podSelector: {matchLabels: {%s: %s}}}", pl.labelKey, pl.labelValue), ""
		if pl.action != "" {
			guarded = fmt.Sprintf(demoGuarded, demoTimeout)
			if selectAll {
				selector = "{}"
			}
		}
		doc := fmt.Sprintf(demoManifest, pl.name, pl.team, pl.index, self, config, selector, guarded)
		if err := demoWrite(filepath.Join(p.plugins(), pl.name+".yaml"), doc); err != nil {
			return err
		}
	}
	return nil
}

// pluginDocument is the plugin's own configuration, JSON.
func (p demoPlace) pluginDocument(pl demoPlugin) (string, error) {
	doc := map[string]any{}
	if key, value, ok := strings.Cut(pl.env, "="); ok && pl.action == "" {
		doc["env"] = map[string]string{key: value}
	} else {
		doc["name"] = pl.name
		doc["dump"] = p.dump(pl.name)
		doc["faults"] = []map[string]string{{"event": "CreateContainer", "action": pl.action, "whileFile": p.faults()}}
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return "", fmt.Errorf("encode the configuration of %q: %w", pl.name, err)
	}
	return string(data), nil
}

// begin and end switch the faults on and off.
func (p demoPlace) begin() error { return demoWrite(p.faults(), "") }

func (p demoPlace) end() error {
	if err := os.Remove(p.faults()); err != nil {
		return fmt.Errorf("end the faults: %w", err)
	}
	return nil
}

func demoWrite(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the demo's files: %w", err)
	}
	return nil
}

// maxDemoDir is the longest temporary folder in which sockets keep within the 107 bytes of a unix socket's path: a pass's folder and the run directory of the plugin with the
// longest name add 55.
const maxDemoDir = 50

// demoFolder makes a private folder that is short enough for sockets.
func demoFolder() (string, error) {
	dir, err := os.MkdirTemp("", "nri-demo-")
	if err != nil {
		return "", fmt.Errorf("make the demo's folder: %w", err)
	}
	if len(dir) <= maxDemoDir {
		return dir, nil
	}
	if err := os.Remove(dir); err != nil {
		return "", fmt.Errorf("remove the demo's folder: %w", err)
	}
	if dir, err = os.MkdirTemp("/tmp", "nri-demo-"); err != nil {
		return "", fmt.Errorf("make the demo's folder: %w", err)
	}
	return dir, nil
}
