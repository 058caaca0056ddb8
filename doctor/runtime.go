package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// fault is something that versions of a runtime are known for.
type fault struct {
	runtime string
	// from is the first version with it, before the first without; empty: no bound.
	from, before string
	// nri says that the bounds are versions of the runtime's NRI, not of the runtime.
	nri    bool
	result Result
	what   string
	mend   string
	// concerns says whether it matters here; nil: always.
	concerns func(*examination) bool
}

// faults is what is known; docs/compatibility.md says what was run.
func faults() []fault {
	return []fault{
		{
			runtime: containerd, before: "1.7.0", result: Problem,
			what: "this containerd has no NRI that plugins can connect to", mend: "use containerd 2, or 1.7 with NRI switched on",
		},
		{
			runtime: containerd, from: "2.3.0", before: "2.3.1", result: Warning,
			what: "this containerd ignores it in silence when a plugin changes or removes an environment variable that the container has already (containerd issue 13432)",
			mend: "use another version for plugins that do that",
		},
		{
			runtime: crio, result: Warning,
			what: "CRI-O fails the creation or the stop of a container if an update of another one fails that a plugin asked for with it",
			mend: "nothing: such updates are marked so that they may fail, or left out; their plugins are told",
		},
		{
			runtime: "docker", result: Warning,
			what: "Docker refuses containers when a plugin asks for an update, tells of no removal, and its pods have no namespace",
			mend: `write selectors that match the empty namespace: namespaces: {include: ["*"]}`,
		},
		{
			before: "0.10.0", nri: true, result: Problem,
			what: "runtime.validate is on and this runtime's NRI has no validation", mend: "delete spec.runtime.validate, or use a runtime with NRI 0.10 or newer (containerd 2.2)",
			concerns: func(e *examination) bool { return e.spec.Runtime.Validate },
		},
		{
			before: "0.8.0", nri: true, result: Warning,
			what: "this runtime's NRI is older than what was run with nri-supervisor", mend: "use a runtime with NRI 0.8 or newer (containerd 2.0)",
		},
	}
}

// runtime is about what versions of runtimes are known for.
func (e *examination) runtime() string {
	l := e.Live
	if !l.Connected {
		return "not known before the supervisor is connected"
	}
	for _, f := range faults() {
		version := l.Version
		if f.nri {
			version = l.NRIVersion
		}
		if f.runtime != "" && f.runtime != canonical(l.Runtime) || f.concerns != nil && !f.concerns(e) || !f.covers(version) {
			continue
		}
		value := strings.TrimSpace(l.Runtime + " " + l.Version)
		if f.nri {
			value += ", NRI " + l.NRIVersion
		}
		e.add(Finding{Result: f.result, What: f.what, Where: e.spec.Runtime.Socket, Value: value, Mend: f.mend})
	}
	return strings.TrimSpace("nothing is known against " + l.Runtime + " " + l.Version)
}

// canonical is the runtime's name as the table has it.
func canonical(name string) string {
	switch name = strings.ToLower(name); name {
	case "crio":
		return crio
	case "dockerd", "moby":
		return "docker"
	default:
		return name
	}
}

// covers says whether the version lies in the fault's bounds. One that cannot be read lies in none.
func (f fault) covers(version string) bool {
	if f.from == "" && f.before == "" {
		return true
	}
	v, ok := parseVersion(version)
	if !ok {
		return false
	}
	if from, ok := parseVersion(f.from); ok && slices.Compare(v, from) < 0 {
		return false
	}
	before, ok := parseVersion(f.before)
	return !ok || slices.Compare(v, before) < 0
}

// parseVersion reads the three numbers of a version; what follows them is not looked at.
func parseVersion(s string) ([]int, bool) {
	core := strings.TrimPrefix(s, "v")
	if i := strings.IndexFunc(core, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); i >= 0 {
		core = core[:i]
	}
	parts := strings.Split(strings.Trim(core, "."), ".")
	out := make([]int, 3)
	for i, p := range parts[:min(len(parts), len(out))] {
		n, err := strconv.Atoi(p)
		if err != nil {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

// timeouts is about the plugins' timeouts within the runtime's.
func (e *examination) timeouts() string {
	limit, source := policy.DefaultRuntimeTimeout, "the default of the runtimes"
	for _, c := range e.runtimes {
		if c.timeout.written() {
			limit, source = c.timeout.value, place(c.timeout.where)
		}
	}
	if e.Live.RequestTimeout > 0 {
		limit, source = e.Live.RequestTimeout, "as the runtime says"
	}
	if e.Config == nil {
		return "not looked at without a configuration"
	}
	for _, p := range e.Config.TimeoutWarnings(limit) {
		f := Finding{Result: Warning, What: p.Message, Where: at(p.File, p.Line), Value: fmt.Sprintf("runtime: %s (%s)", limit, source), Mend: p.Remedy}
		if p.Plugin != "" {
			f.Result, f.What = Problem, "plugin "+p.Plugin+": "+p.Message
		}
		e.add(f)
	}
	return fmt.Sprintf("all fit into %s (%s)", limit.Round(time.Millisecond), source)
}

// aboutRequired says whether the loader's problem is about a required plugin.
func (e *examination) aboutRequired(p policy.Problem) bool {
	return strings.HasPrefix(p.Field, "spec.requiredPlugins") ||
		slices.Contains(e.spec.RequiredPlugins, p.Plugin) && strings.Contains(p.Message, " is required for every container")
}

// required is about plugins without which no container is created.
func (e *examination) required() string {
	if e.Config != nil {
		for _, p := range e.Config.Problems {
			if e.aboutRequired(p) {
				e.add(Finding{Result: Problem, What: p.Message, Where: at(p.File, p.Line), Value: p.Field, Mend: p.Remedy})
			}
		}
	}
	for _, name := range e.Live.Disabled {
		if slices.Contains(e.spec.RequiredPlugins, name) {
			e.add(Finding{
				Result: Problem, What: "the required plugin " + name + " is disabled, so that no container but those of critical pods is created", Where: e.ConfigFile, Value: "spec.requiredPlugins",
				Mend: "nri-supervisor plugin enable " + name + ", or take it out of requiredPlugins",
			})
		}
	}
	if e.Live.serves() {
		e.requiredNow()
	}
	for _, c := range e.runtimes {
		for _, name := range c.required.value {
			if slices.ContainsFunc(e.plugins, func(p *policy.Plugin) bool { return name == p.Name || name == p.Index+"-"+p.Name }) {
				e.add(Finding{
					Result: Problem, What: fmt.Sprintf("%s requires plugin %s, which it cannot see behind the supervisor: it refuses every container", c.runtime, name), Where: place(c.required.where), Value: name,
					Mend: fmt.Sprintf("require %s there, and %s in spec.requiredPlugins", e.spec.Runtime.Name, name),
				})
			}
		}
	}
	if len(e.spec.RequiredPlugins) == 0 {
		return "no plugin is required for every container"
	}
	return strings.Join(e.spec.RequiredPlugins, ", ") + " can do their work"
}
