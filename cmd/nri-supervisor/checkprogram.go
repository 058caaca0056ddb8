package main

import (
	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// checkPrograms are the mistakes in what valid manifests execute that only the start would find: file capabilities, and what reads a script.
func checkPrograms(cfg *policy.Config) policy.Problems {
	if cfg == nil {
		return nil
	}
	var out policy.Problems
	looks := newLooks()
	for _, p := range cfg.Plugins {
		e := p.Spec.Exec
		if e == nil {
			continue
		}
		c := isolation.Confinement{TrustFile: p.FileTrust != policy.TrustOff, Setuid: p.Spec.Sandbox.Profile == policy.ProfileNone}
		if err := looks.Try(e.Path, func() error { return c.CheckProgram(e.Path, writtenEnv(e)) }); err != nil {
			out = append(out, policy.Problem{File: p.File, Line: p.Line, Field: "spec.exec.path", Plugin: p.Name, Message: err.Error()})
		}
	}
	return out
}
