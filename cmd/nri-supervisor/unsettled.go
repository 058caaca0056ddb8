package main

import (
	"fmt"
	"slices"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// unsettled is a file that a plugin executes or loads, and another plugin that can change it if that is started first.
type unsettled struct {
	loadedFile
	by string
	// named tells that it has several names, and is refused beside the other plugin whichever is started first.
	named bool
}

// unsettledOf is the first such file of a plugin; nil: it has none among the plugins of the configuration.
func unsettledOf(cfg *policy.Config, p *policy.Plugin, confine confinements) *unsettled {
	if p.Spec.Exec == nil {
		return nil
	}
	others := slices.DeleteFunc(runnersOf(cfg.Plugins, confine), func(o runner) bool { return o.plugin.Name == p.Name })
	var out *unsettled
	for _, f := range loadedFiles(confine.looks, p, writtenEnv(p.Spec.Exec)) {
		if by := f.namedBy(p, others); by != "" {
			return &unsettled{f, by, true}
		}
		for i := range others {
			if out == nil && slices.ContainsFunc(f.at, others[i].mightWrite) {
				out = &unsettled{f, others[i].plugin.Name, false}
			}
		}
	}
	return out
}

// freedom is the line of nri-supervisor security.
func (u *unsettled) freedom() freedom {
	const what = "others' plugins"
	if u.named {
		return freedom{what, fmt.Sprintf("can change its %s %s by another of its %d names, as %s; it is refused", u.what, u.path, u.names, u.by), limited, "a copy of it that has no other name" + u.pin()}
	}
	lower := "what it loads below /opt"
	if u.what == "executable" {
		lower = "exec: {path: below /opt}, or exec: {sha256: HASH}"
	}
	return freedom{what, fmt.Sprintf("can change its %s %s if they run when it is added or replaced, as %s; it is refused then", u.what, u.path, u.by), limited, lower}
}

// problem is what check says: what is refused, and what to do.
func (u *unsettled) problem() (message, remedy string) {
	if u.named {
		return fmt.Sprintf("%s %q: the file has %d names, hard links, and plugin %s could change it by another one: this one is not started", u.what, u.path, u.names, u.by), "install a copy that has no other name" + u.pin()
	}
	remedy = "move it below /opt"
	if protectedAlways(u.target()) {
		remedy = "move it where no plugin's readWritePaths are"
	}
	if u.what == "executable" {
		remedy += ", or write exec.sha256"
	}
	return fmt.Sprintf("%s %q: plugin %s can change it if that runs when this one is added or the file is replaced, and then this one is not started until the service is restarted", u.what, u.path, u.by), remedy
}

// checkUnsettled warns of what a reload would refuse.
func checkUnsettled(cfg *policy.Config, file string) policy.Problems {
	if cfg == nil {
		return nil
	}
	var out policy.Problems
	confine := confinementsOf(cfg, file, newLooks())
	for _, p := range cfg.Plugins {
		if u := unsettledOf(cfg, p, confine); u != nil {
			message, remedy := u.problem()
			out = append(out, policy.Problem{File: p.File, Line: p.Line, Field: "spec.exec", Plugin: p.Name, Severity: policy.Warning, Message: message, Remedy: remedy})
		}
	}
	return out
}
