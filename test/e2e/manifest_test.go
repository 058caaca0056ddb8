package e2e

import (
	"fmt"
	"path/filepath"
)

// manifest is a plugin's manifest.
type manifest struct {
	name, team, index string
	program           string // a program that this test built, or an absolute path
	stock             bool   // exec.protocol is nri
	attached          bool   // it dials by itself: see attach
	config            string // YAML in flow style; for stock plugins JSON, as text
	label             string // pods with the label LABEL=yes are selected; empty selects all
	restart           string // restart policy in flow style; default {backoff: 100ms}
	extra             string // more lines of the spec, indented by two
}

// manifests writes documents.
func manifests(all ...manifest) string {
	text := ""
	for _, m := range all {
		text += m.String()
	}
	return text
}

// String is the document.
func (m manifest) String() string {
	path, protocol, config, selector, team := m.program, "go-plugin", "config: "+m.config, "{}", m.team
	if !filepath.IsAbs(path) {
		path = filepath.Join(bin, path)
	}
	if m.stock {
		protocol, config = "nri", fmt.Sprintf("configText: %q", m.config)
	}
	start := fmt.Sprintf("exec: {path: %q, protocol: %s}", path, protocol)
	if m.attached {
		start, config = "attach: {}", fmt.Sprintf("configText: %q", m.config)
	}
	if m.config == "" {
		config = ""
	}
	if m.label != "" {
		selector = fmt.Sprintf(`{podSelector: {matchLabels: {%q: "yes"}}}`, m.label)
	}
	if team == "" {
		team = "ml-infra"
	}
	restart := m.restart
	if restart == "" {
		restart = "{backoff: 100ms}"
	}
	restart = "restart: " + restart
	if m.attached {
		restart = "" // its process is not the supervisor's
	}
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %s}
spec:
  team: %s
  index: %q
  %s
  %s
  selector: %s
  %s
%s
---
`, m.name, team, m.index, start, config, selector, restart, m.extra)
}
