package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/nri-supervisor/nri-supervisor/filelook"
	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// confinements turn manifests into what package isolation applies. docs/isolation.md explains each line. What it has itself changes while the service
// runs only for what other plugins have, which is kept from those that start later; all else is the plugin's, so that policy.SameProcess sees each change of it.
type confinements struct {
	// hidden are the folders of runtimes' sockets and of our own.
	hidden []string
	// kept are the configuration, the audit, and the programs of all plugins: who can write to one of them decides what runs next, and how confined.
	kept []string
	// written are the paths that plugins can write by their lists.
	written []string
	// root says that the supervisor is root, as the service is.
	root bool
	// looks look at all these.
	looks *filelook.Looks
}

func newConfinements(spec *policy.SupervisorSpec, looks *filelook.Looks) confinements {
	c := confinements{root: os.Geteuid() == 0, hidden: policy.RuntimeSockets(), looks: looks}
	for _, path := range []string{socketFolder(spec.Runtime.Socket), socketFolder(spec.Admin.Socket), spec.RunDir, spec.StateDir} {
		for _, path := range c.alsoResolved(path) {
			if !slices.Contains(c.hidden, path) {
				c.hidden = append(c.hidden, path)
			}
		}
	}
	if spec.Audit.Path != "" {
		c.keep(socketFolder(spec.Audit.Path)) // the audit makes its files anew, as a server makes its socket
	}
	return c
}

// confinementsOf knows the plugins of a configuration, and the file that it is from.
func confinementsOf(cfg *policy.Config, file string, looks *filelook.Looks) confinements {
	c := newConfinements(&cfg.Supervisor, looks).with(cfg.Plugins...)
	c.keep(file)
	return c
}

// keep adds a path that no plugin may write to.
func (c *confinements) keep(path string) {
	for _, path := range c.alsoResolved(path) {
		if path != "/" && !slices.Contains(c.kept, path) {
			c.kept = append(c.kept, path)
		}
	}
}

// alsoResolved are a path of the configuration, if it is absolute, and what it leads to: of the links on the way, the isolation follows only those that no plugin can change.
func (c *confinements) alsoResolved(path string) []string {
	if path = filepath.Clean(path); !filepath.IsAbs(path) {
		return nil
	}
	if target, ok := c.looks.Resolved(path); ok && target != path && target != "/" {
		return []string{path, target}
	}
	return []string{path}
}

// with is the same with what has to be kept from the others of some plugins: their programs, and the sockets at which they attach.
func (c confinements) with(plugins ...*policy.Plugin) confinements {
	c.hidden, c.kept, c.written = slices.Clone(c.hidden), slices.Clone(c.kept), slices.Clone(c.written)
	for _, p := range plugins {
		if e := p.Spec.Exec; e != nil {
			c.keep(e.Path)
			c.keepLoaded(newLoadedFile(c.looks, e.Path, "executable"))
			c.keepLoaded(loadedFiles(c.looks, p, writtenEnv(e))...)
		}
		for _, path := range p.Spec.Sandbox.ReadWritePaths {
			if path = filepath.Clean(path); filepath.IsAbs(path) && !slices.Contains(c.written, path) {
				c.written = append(c.written, path)
				c.looks.Resolved(path) // the stage looks at it, and would wait for what does not answer
			}
		}
		if a := p.Spec.Attach; a != nil {
			if folder := socketFolder(a.Socket); filepath.IsAbs(folder) && !slices.Contains(c.hidden, folder) {
				c.hidden = append(c.hidden, folder)
			}
		}
	}
	return c
}

// keepLoaded keeps what plugins execute and load, and the folders of the links that lead there: a link is replaced by who can write to its folder. Those in which each plugin may make
// files of its own are left as they are.
func (c *confinements) keepLoaded(files ...loadedFile) {
	for _, f := range files {
		if f.err != nil {
			c.keep(f.path) // the isolation sees to what does not answer
			continue
		}
		at := f.at
		if f.missing {
			at = at[:len(at)-1]
		}
		for _, path := range at {
			if !protectedAlways(path) && path != "/var" && path != "/var/lib" {
				c.keep(path)
			}
		}
	}
}

// writtenEnv is the environment that is written in the manifest.
func writtenEnv(e *policy.ExecSpec) []string {
	var out []string
	for _, v := range e.Env {
		if v.ValueFrom == nil { // a PATH, by which env finds an interpreter
			out = append(out, v.Name+"="+v.Value)
		}
	}
	return out
}

// merged has what either has.
func (c confinements) merged(o confinements) confinements {
	for _, l := range []struct {
		to   *[]string
		from []string
	}{{&c.hidden, o.hidden}, {&c.kept, o.kept}, {&c.written, o.written}} {
		*l.to = slices.Clone(*l.to)
		for _, path := range l.from {
			if !slices.Contains(*l.to, path) {
				*l.to = append(*l.to, path)
			}
		}
	}
	return c
}

// protected are the folders of manifests.
func (c *confinements) protected(p *policy.Plugin) []string {
	var out []string
	for _, path := range p.ManifestDirs {
		if path, err := filepath.Abs(path); err == nil && path != "/" {
			out = append(out, c.alsoResolved(path)...)
		}
	}
	return out
}

// socketFolder is what has to be hidden for a socket to be: its folder, since the socket is made anew when its owner starts, or
// the socket alone if much else is in that folder.
func socketFolder(socket string) string {
	folder := filepath.Dir(filepath.Clean(socket))
	if slices.Contains([]string{"/", "/run", "/var/run", "/tmp", "/var/tmp", "/var", "/var/lib", "/etc", "/usr", "/opt", "/home", "/root"}, folder) {
		return socket
	}
	return folder
}

// of is what the manifest asks for.
func (c confinements) of(p *policy.Plugin) (isolation.Confinement, error) {
	var out isolation.Confinement
	s := &p.Spec.Sandbox
	switch s.Profile {
	case policy.ProfileNone:
		out = isolation.None()
		out.NoNetwork = s.Network == policy.NetworkNone
	case policy.ProfileStandard:
		out = isolation.Standard(c.hidden)
		out.NoNetwork = s.Network == policy.NetworkNone
		out.Protect = slices.Concat(out.Protect, c.kept, c.protected(p), s.ReadOnlyPaths)
	case policy.ProfileStrict:
		out = isolation.Strict(c.hidden)
		out.NoNetwork = s.Network == policy.NetworkNone || !p.NetworkWritten
	}
	out.Limits = limits(p)
	out.NoFile, out.RLimits = rlimits(p)
	if err := applyAccount(&out, p); err != nil {
		return out, err
	}
	out.TrustFile = p.FileTrust != policy.TrustOff
	if s.Profile == policy.ProfileNone {
		return out, nil
	}
	out.ReadOnly, out.ReadWrite, out.Written = s.ReadOnlyPaths, s.ReadWritePaths, c.written
	out.Seccomp = s.Seccomp != policy.SeccompUnconfined
	out.Capabilities, out.Required = adjustCapabilities(out.Capabilities, s.Capabilities), s.Capabilities.Add
	if !p.ProfileWritten {
		out.Optional = c.optional(s)
	}
	return out, nil
}

// optional are the parts of the default profile that a host may lack. What the manifest changes, it asks for. Without a cgroup something of a plugin could survive it, so
// the service starts none; a trial of somebody who is not root can have no cgroups at all.
func (c confinements) optional(s *policy.SandboxSpec) []isolation.Part {
	out := []isolation.Part{isolation.PartSeccomp}
	if !c.root {
		out = append(out, isolation.PartCgroup)
	}
	if len(s.Capabilities.Add)+len(s.Capabilities.Drop) == 0 {
		out = append(out, isolation.PartCapabilities)
	}
	if len(s.ReadOnlyPaths)+len(s.ReadWritePaths) == 0 {
		out = append(out, isolation.PartMounts)
	}
	return out
}

func limits(p *policy.Plugin) isolation.Limits {
	var out isolation.Limits
	l := p.Spec.Resources.Limits
	if l.Memory != nil {
		out.Memory = l.Memory.Value()
	}
	if l.CPU != nil {
		out.CPU = l.CPU.MilliValue()
	}
	if l.PIDs != nil {
		out.PIDs = l.PIDs.Value()
	}
	return out
}

// rlimits are the limits of each process. That of open files is a field of its own, since it has a default.
func rlimits(p *policy.Plugin) (noFile uint64, others []isolation.RLimit) {
	for _, l := range p.Spec.Resources.Limits.RLimits() {
		if *l.Limit == nil {
			continue
		}
		value := uint64(max((*l.Limit).Value(), 0))
		if l.Name == "nofile" {
			noFile = value
			continue
		}
		others = append(others, isolation.RLimit{Resource: isolation.Resource(l.Name), Value: value})
	}
	return noFile, others
}

// adjustCapabilities applies drop, and then add.
func adjustCapabilities(profile []string, change policy.CapabilitiesSpec) []string {
	var out []string
	for _, name := range profile {
		if !slices.Contains(change.Drop, name) && !slices.Contains(change.Drop, policy.AllCapabilities) {
			out = append(out, name)
		}
	}
	for _, name := range change.Add {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
