package main

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/filelook"
	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// firstOwnUser is the least number of the users that a plugin gets for itself, docs/isolation.md.
const firstOwnUser = 0x70000000

// runners are the plugins' processes that run, or are being started. What is kept from a process is settled at its start, so that one that was started before a reload added a plugin may
// be able to change what that executes. The zero value is ready for use; safe for concurrent use.
type runners struct {
	mu  sync.Mutex
	all map[*runner]bool
	// past are processes that have ended, of each plugin one for each team and confinement that it had: what they wrote is still there.
	past map[string][]runner
	// configured are the plugins of the configuration as they would be started, whether they were or not.
	configured []runner
	// known is which file was there at the last look.
	known map[string]fileIdentity
	// changed are files that processes could have changed, and which: no other plugin believes them again while the service runs, nor the same one if it is confined otherwise.
	changed map[string][]runner
	// looks look at paths.
	looks *filelook.Looks
	// bare is set on a host where plugins have no mounts of their own, and nothing is kept from them.
	bare bool
}

// fileIdentity tells a file from another one, and from itself after a change, which no process can hide.
type fileIdentity struct {
	dev, ino uint64
	changed  unix.Timespec // the time of the last change of its content, mode or name
}

// runner is one process.
type runner struct {
	plugin  *policy.Plugin
	confine isolation.Confinement
	process interface { // nil until it is started
		Reach(path string) (isolation.Reach, error)
	}
	looks *filelook.Looks
	// ran tells that it was executed, if that did not come up: what it wrote until then is there.
	ran bool
}

// admit refuses a plugin that executes what another's process may have changed, and else counts it as one that runs, until its end is told to leave. What has to be asked of the others is asked
// without keeping anybody waiting: a file system may not answer.
func (r *runners) admit(p *policy.Plugin, c isolation.Confinement, files []loadedFile) (*runner, error) {
	out := &runner{plugin: p, confine: c, looks: r.looks}
	r.mu.Lock()
	ran, configured := r.ranLocked(), r.configured
	if r.all == nil {
		r.all = map[*runner]bool{}
	}
	r.all[out] = true // who starts from now on asks this one
	r.mu.Unlock()
	for _, f := range files {
		err := f.readable()
		if err == nil {
			err = f.onlyName(p, slices.Concat(ran, configured))
		}
		if err == nil {
			err = r.judge(p, f, ran)
		}
		if err != nil {
			r.leave(out)
			return nil, err
		}
	}
	return out, nil
}

// judge refuses a file that a process could have changed, now or when that was asked before, unless that was one of the same plugin. The plugin's own are asked too: what they wrote is
// there for the others, and for the plugin itself when it is confined less.
func (r *runners) judge(p *policy.Plugin, f loadedFile, ran []runner) error {
	r.mu.Lock()
	was, known := r.known[f.path]
	r.mu.Unlock()
	now, there := f.identity(r.looks)
	replaced := there && known && was != now // what kept the one before from others went with it
	could := slices.DeleteFunc(slices.Clone(ran), func(o runner) bool {
		return !f.changeableBy(&o) && (!replaced || !f.mightBeChangedBy(&o))
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.changed[f.path]
	all := slices.Clone(before)
	for i := range could {
		if !slices.ContainsFunc(all, func(o runner) bool { return o.isOf(could[i].plugin) }) {
			all = append(all, could[i])
		}
	}
	if r.changed == nil {
		r.changed = map[string][]runner{}
	}
	if len(all) > len(before) {
		r.changed[f.path] = all
	}
	if there {
		r.believeLocked(f.path, now)
	}
	if n := slices.IndexFunc(all, func(o runner) bool { return !o.isOf(p) }); n >= 0 {
		return f.refusal(all[n].plugin.Name, n < len(before))
	}
	return nil
}

// ranLocked are the processes that run and have run, as they are now.
func (r *runners) ranLocked() []runner {
	var out []runner
	for o := range r.all {
		out = append(out, *o)
	}
	for _, ended := range r.past {
		out = append(out, ended...)
	}
	return out
}

// configure tells which plugins the configuration has.
func (r *runners) configure(plugins []*policy.Plugin, confine confinements) {
	out := runnersOf(plugins, confine)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.configured = out
}

// runnersOf are the plugins of a configuration that are executed, as they would be started.
func runnersOf(plugins []*policy.Plugin, confine confinements) []runner {
	var out []runner
	for _, p := range plugins {
		if p.Spec.Exec == nil {
			continue
		}
		if c, err := confine.of(p); err == nil { // else it is not started
			out = append(out, runner{plugin: p, confine: c, looks: confine.looks})
		}
	}
	return out
}

// know takes note of which files are there before any plugin runs.
func (r *runners) know(files []loadedFile) {
	for i := range files {
		if now, there := files[i].identity(r.looks); there {
			r.mu.Lock()
			r.believeLocked(files[i].path, now)
			r.mu.Unlock()
		}
	}
}

func (r *runners) believeLocked(path string, now fileIdentity) {
	if r.known == nil {
		r.known = map[string]fileIdentity{}
	}
	r.known[path] = now
}

// started tells which process it is. Of one that has no mounts of its own on this host nothing is kept, which its start logs; it counts as what its profile promises.
func (r *runners) started(of *runner, i *isolation.Instance) {
	if slices.ContainsFunc(i.Reduced(), func(part string) bool { return strings.HasPrefix(part, isolation.PartMounts.String()+":") }) {
		r.mu.Lock()
		r.bare = true
		r.mu.Unlock()
		return
	}
	r.mu.Lock()
	of.process = i
	r.mu.Unlock()
}

// failed tells that its start failed, and that nothing of it runs any more.
func (r *runners) failed(of *runner, err error) {
	r.mu.Lock()
	of.ran = wasExecuted(err) && !r.bare
	r.mu.Unlock()
	r.leave(of)
}

// wasExecuted tells whether a plugin whose start failed has been executed, as far as is known.
func wasExecuted(err error) bool {
	e, ok := errors.AsType[*isolation.StartError](err)
	if !ok {
		return true
	}
	switch e.Phase {
	case isolation.PhaseSpec, isolation.PhaseBinary, isolation.PhaseRunDir, isolation.PhaseSandbox, isolation.PhaseExec:
		return false
	case isolation.PhaseHandshake, isolation.PhaseControl, isolation.PhaseRegister:
	}
	return true
}

// leave tells that nothing of it runs any more.
func (r *runners) leave(of *runner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, of)
	if of.process == nil && !of.ran {
		return // it never ran, or is trusted
	}
	ended := runner{plugin: of.plugin, confine: of.confine, looks: r.looks}
	if r.past == nil {
		r.past = map[string][]runner{}
	}
	if name := of.plugin.Name; !slices.ContainsFunc(r.past[name], func(o runner) bool {
		return o.plugin.Team == ended.plugin.Team && reflect.DeepEqual(o.confine, ended.confine)
	}) {
		r.past[name] = append(r.past[name], ended)
	}
}

// sees returns a plugin whose process can connect to a socket of another plugin that takes these users; "": none.
func (r *runners) sees(p *policy.Plugin, socket string, uids []int64) string {
	r.mu.Lock()
	others := r.ranLocked()
	r.mu.Unlock()
	folder := existing(r.looks, filepath.Dir(socket))
	for i := range others {
		if o := &others[i]; !o.isOf(p) && o.confine.CutCapabilities && o.mayBe(uids) && o.sees(folder) {
			return o.plugin.Name
		}
	}
	return ""
}

// isOf tells whether it is a process of the same plugin, confined as this one is but for its limits, which gains nothing by what it does to a later one.
func (o *runner) isOf(p *policy.Plugin) bool {
	same := *o.plugin
	same.Spec.Resources = p.Spec.Resources
	return same.Name == p.Name && same.Team == p.Team && policy.SameConfinement(&same, p)
}

// mayBe tells whether it is, or can become, one of the users.
func (o *runner) mayBe(uids []int64) bool {
	c := &o.confine
	switch {
	case len(holdsOf(c, "SETUID")) > 0:
		return true
	case c.OwnUser:
		return slices.ContainsFunc(uids, func(uid int64) bool { return uid >= firstOwnUser })
	case c.User != nil:
		return slices.Contains(uids, int64(c.User.UID))
	default:
		return slices.Contains(uids, 0)
	}
}

// writes tells whether it may be able to write at a path without links. The node trusts one without a profile as it trusts root; root's files, as all of these are, are kept from other
// users by their modes.
func (o *runner) writes(path string) bool {
	if !o.asRoot(path) {
		return false
	}
	reach := o.reaches(path)
	if reach == isolation.ReachedElsewhere { // mounted there since its start, unless that path is hidden from it
		reach = o.plannedReach(path)
	}
	return reach == isolation.ReachedWritable
}

// sees tells whether it can open what is at a path without links.
func (o *runner) sees(path string) bool {
	return !slices.Contains([]isolation.Reach{isolation.Unreached, isolation.ReachedElsewhere}, o.reaches(path))
}

// mightWrite tells whether it may have been able to write at a path without links at some time, if that was not kept from it as a plugin's: by its profile, and its own list.
func (o *runner) mightWrite(path string) bool {
	c := o.confine
	c.Hide, c.ReadOnly, c.Protect = nil, nil, nil
	if !c.ConfineFiles {
		c.Protect = isolation.Standard(nil).Protect
	}
	c.PrivateTmp = isolation.Standard(nil).PrivateTmp
	of := runner{confine: c, looks: o.looks}
	return o.asRoot(path) && of.plannedReach(path) == isolation.ReachedWritable
}

// asRoot tells whether it writes as root does where its mounts let it.
func (o *runner) asRoot(path string) bool {
	c := &o.confine
	if !c.CutCapabilities || !likeRoot(c) {
		return false
	}
	return !c.ConfineFiles || slices.ContainsFunc(c.ReadWrite, func(p string) bool { return within(path, o.resolved(p)) })
}

// reaches asks the process; of one that is not there yet, or not any more, what is known is what its start asks for.
func (o *runner) reaches(path string) isolation.Reach {
	if o.process != nil {
		if r, err := o.process.Reach(path); err == nil {
			return r
		}
	}
	return o.plannedReach(path)
}

// resolved is a path of its confinement without links, or as it is if that is not known.
func (o *runner) resolved(path string) string {
	if target, ok := o.looks.Resolved(path); ok {
		return target
	}
	return path
}

// plannedReach is how a process reaches a path by its confinement: the nearest rule decides.
func (o *runner) plannedReach(path string) isolation.Reach {
	c := &o.confine
	out, nearest := isolation.ReachedWritable, -1
	if path == "/" && len(c.Protect) > 0 {
		return isolation.ReachedReadOnly // its entries stay as they are
	}
	for _, rule := range []struct {
		paths []string
		reach isolation.Reach
	}{
		{slices.Concat(c.Hide, c.PrivateTmp), isolation.Unreached},
		{c.Protect, isolation.ReachedReadOnly},
		{c.ReadOnly, isolation.ReachedReadOnly},
		{c.ReadWrite, isolation.ReachedWritable},
	} {
		for _, p := range rule.paths {
			if p = o.resolved(p); within(path, p) && len(p) >= nearest {
				out, nearest = rule.reach, len(p)
			}
		}
	}
	return out
}

// protectedAlways tells whether no plugin with a profile can write at a path without links unless its own lists say so.
func protectedAlways(path string) bool {
	return path == "/" || slices.ContainsFunc(isolation.Standard(nil).Protect, func(p string) bool { return within(path, p) })
}
