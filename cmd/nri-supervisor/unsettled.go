package main

import (
	"fmt"
	"slices"

	"github.com/nri-supervisor/nri-supervisor/filelook"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// unsettled is a file that a plugin executes or loads, and another plugin that can change it if that is started first.
type unsettled struct {
	loadedFile
	by string
}

// unsettledOf is the first such file of a plugin; nil: it has none among the plugins of the configuration.
func unsettledOf(cfg *policy.Config, p *policy.Plugin, confine confinements) *unsettled {
	if p.Spec.Exec == nil {
		return nil
	}
	for _, f := range loadedFiles(confine.looks, p, writtenEnv(p.Spec.Exec)) {
		if !slices.ContainsFunc(f.at, func(at string) bool { return !protectedAlways(at) && !privateAlways(at) }) {
			continue
		}
		for _, other := range cfg.Plugins {
			if other.Spec.Exec == nil || other.Name == p.Name {
				continue
			}
			c, err := confine.of(other)
			if err == nil && c.CutCapabilities && !c.ConfineFiles && likeRoot(&c) {
				return &unsettled{f, other.Name}
			}
		}
	}
	return nil
}

// freedom is the line of nri-supervisor security.
func (u *unsettled) freedom() freedom {
	lower := "what it loads below /opt"
	if u.what == "executable" {
		lower = "exec: {path: below /opt}, or exec: {sha256: HASH}"
	}
	return freedom{"others' plugins", fmt.Sprintf("can change its %s %s if they run when it is added or replaced, as %s; it is refused then", u.what, u.path, u.by), limited, lower}
}

// checkUnsettled warns of what a reload would refuse.
func checkUnsettled(cfg *policy.Config, file string) policy.Problems {
	if cfg == nil {
		return nil
	}
	var out policy.Problems
	confine := confinementsOf(cfg, file, &filelook.Looks{})
	for _, p := range cfg.Plugins {
		if u := unsettledOf(cfg, p, confine); u != nil {
			remedy := "move it below /opt"
			if u.what == "executable" {
				remedy += ", or write exec.sha256"
			}
			out = append(out, policy.Problem{
				File: p.File, Line: p.Line, Field: "spec.exec", Plugin: p.Name, Severity: policy.Warning,
				Message: fmt.Sprintf("%s %q: plugin %s can change it if that runs when this one is added or the file is replaced, and then this one is not started until the service is restarted",
					u.what, u.path, u.by), Remedy: remedy,
			})
		}
	}
	return out
}
