package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// configuration tells what the loader found, but for what other checks say better.
func (e *examination) configuration() string {
	if e.ConfigErr != nil {
		problems, ok := errors.AsType[policy.Problems](e.ConfigErr)
		if !ok {
			e.add(Finding{Result: Problem, What: e.ConfigErr.Error(), Where: e.ConfigFile, Mend: "see: nri-supervisor check"})
			return ""
		}
		for _, p := range problems.Errors() {
			e.problem(p)
		}
		return ""
	}
	if e.Config == nil {
		return "not looked at"
	}
	for _, p := range e.Config.Problems {
		if p.Field != "spec.timeouts" && !e.aboutRequired(p) {
			e.problem(p)
		}
	}
	if e.ConfigFile == "" {
		return "there is no configuration file: the built-in defaults are used, which declare no team"
	}
	return fmt.Sprintf("%s and %d manifests are valid", e.ConfigFile, len(e.Config.Plugins))
}

func (e *examination) problem(p policy.Problem) {
	f := Finding{Result: Problem, What: p.Message, Where: at(p.File, p.Line), Value: p.Field, Mend: p.Remedy}
	if p.Severity == policy.Warning {
		f.Result = Warning
	}
	if f.Mend == "" {
		f.Mend = "see: nri-supervisor check"
	}
	e.add(f)
}

// service is about the running supervisor.
func (e *examination) service() string {
	l := e.Live
	switch {
	case l.Denied:
		e.add(Finding{Result: Unknown, What: "the supervisor runs and does not answer this user: " + l.Silent, Where: e.spec.Admin.Socket, Mend: "run doctor as root, or as a user with the role view"})
	case l.Silent != "":
		mend := "start the service: systemctl start nri-supervisor"
		if l.Hint != "" {
			mend = l.Hint
		}
		e.add(Finding{Result: Problem, What: "the supervisor does not answer, so no plugin is hosted: " + l.Silent, Where: e.spec.Admin.Socket, Mend: mend})
	case !l.Connected && l.Reason == "":
		e.add(Finding{Result: Unknown, What: "the supervisor is not registered with the runtime yet", Where: e.spec.Runtime.Socket, Mend: "ask again in ten seconds"})
	case !l.Connected:
		mend := l.Remedy
		if mend == "" {
			mend = "see the checks below"
		}
		e.add(Finding{Result: Problem, What: "the supervisor is not registered with the runtime: " + l.Why, Where: e.spec.Runtime.Socket, Value: l.Reason, Mend: mend})
	case l.Bypass:
		e.add(Finding{Result: Warning, What: "a bypass is on: no plugin is called", Mend: "nri-supervisor bypass --off"})
	}
	if l.serves() {
		e.outages()
	}
	return strings.TrimSpace("registered with " + l.Runtime + " " + l.Version)
}

// nri is about the runtimes' own configuration. A supervisor that is connected shows that NRI is on now; what the file says then is about the next start of the runtime.
func (e *examination) nri() string {
	for _, f := range e.files {
		e.add(f)
	}
	for _, c := range e.runtimes {
		result, when := Problem, ""
		if e.Live.Connected {
			result, when = Warning, ", from the next restart of the runtime on"
		}
		switch {
		case c.off.value && c.off.written():
			e.add(Finding{Result: result, What: "NRI is off in " + c.runtime + when, Where: place(c.off.where), Value: key(c.off.where, "true"), Mend: turnOn(c)})
		case !c.off.written() && c.runtime == containerd && c.old && !e.Live.Connected && !e.socketThere():
			e.add(Finding{
				Result: Problem, What: "NRI is probably off: containerd 1 has it off by default, and the NRI socket is missing", Where: c.file,
				Value: "no table [plugins.\"" + nriPlugin + "\"]", Mend: turnOn(c),
			})
		}
		if c.noConnections.value {
			e.add(Finding{
				Result: result, What: c.runtime + " refuses plugins that it did not start itself" + when, Where: place(c.noConnections.where), Value: key(c.noConnections.where, "true"),
				Mend: "set it to false and restart the runtime, or let the runtime start nri-supervisor (docs/operating.md)",
			})
		}
		if c.socket.written() && e.Host.resolve(c.socket.value) != e.Host.resolve(e.spec.Runtime.Socket) {
			e.add(Finding{
				Result: result, What: c.runtime + " listens elsewhere than the supervisor dials" + when, Where: place(c.socket.where), Value: key(c.socket.where, c.socket.value),
				Mend: fmt.Sprintf("write spec.runtime.socket: %s in place of %s", c.socket.value, e.spec.Runtime.Socket),
			})
		}
	}
	switch {
	case e.Live.Connected:
		return "on: the runtime talks to us"
	case len(e.runtimes) > 0:
		return "on, as " + e.runtimes[0].file + " has it"
	case !e.socketThere():
		e.add(Finding{
			Result: Unknown, What: "neither a runtime's configuration nor an NRI socket is to be seen", Where: containerdConfig + ", " + crioConfig,
			Mend: "run doctor on the node itself, or with --root where the node's files are",
		})
	}
	return "the socket is there; no configuration of a runtime is to be seen"
}

// turnOn says how NRI is switched on.
func turnOn(c runtimeConfig) string {
	if c.runtime == crio {
		return "write enable_nri = true under [crio.nri] and restart crio"
	}
	if strings.HasSuffix(c.off.where, "disabled_plugins") {
		return "take " + nriPlugin + " out of disabled_plugins and restart containerd"
	}
	return "write disable = false under [plugins.\"" + nriPlugin + "\"] and restart containerd"
}

// place and key take a setting's where apart: the file with its line, and the key with the value.
func place(where string) string {
	file, _, _ := strings.Cut(where, " ")
	return file
}

func key(where, value string) string {
	_, name, _ := strings.Cut(where, " ")
	switch name {
	case "enable_nri":
		value = "false"
	case "disabled_plugins":
		value = "[\"" + nriPlugin + "\"]"
	}
	return name + " = " + value
}

func (e *examination) socketThere() bool {
	return e.Host.exists(e.spec.Runtime.Socket)
}

// socket is about the file by which the runtime is reached.
func (e *examination) socket() string {
	name := e.spec.Runtime.Socket
	info, err := e.Host.lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !e.Live.Connected { // else it is in another mount namespace than ours
			e.add(Finding{
				Result: Problem, What: "the NRI socket is missing", Where: name,
				Mend: "start the runtime with NRI on, or set spec.runtime.socket; in a container, mount the folder " + path.Dir(name),
			})
		}
		return "not seen from here, and in use"
	case err != nil:
		if !e.Live.Connected {
			e.add(Finding{Result: Unknown, What: "the NRI socket cannot be looked at: " + err.Error(), Where: name, Mend: "run doctor as root"})
		}
		return "not seen from here, and in use"
	case info.IsDir():
		e.add(Finding{
			Result: Problem, What: "there is a folder where the NRI socket should be", Where: name, Value: "folder",
			Mend: "remove it and restart the runtime; it is what mounting the socket itself into a container makes while it is missing: mount " + path.Dir(name) + " instead",
		})
		return ""
	case info.Mode().Type() != fs.ModeSocket:
		e.add(Finding{Result: Problem, What: "what is there is not a socket", Where: name, Value: kind(info.Mode()), Mend: "remove it and restart the runtime"})
		return ""
	}
	resolved := e.Host.resolve(name)
	for _, m := range e.Host.mounts(e.self()) {
		if m.point == resolved || m.point == name {
			e.add(Finding{
				Result: Problem, What: "the NRI socket itself is mounted: after the next restart of the runtime it leads nowhere", Where: name, Value: "mount of " + m.root,
				Mend: "mount its folder " + path.Dir(name) + " instead",
			})
			return ""
		}
	}
	if !e.Live.Connected && !e.listening(name, resolved) {
		e.add(Finding{
			Result: Unknown, What: "nobody is seen to listen on the NRI socket", Where: name,
			Mend: "look whether the runtime runs; from a container with a network of its own this cannot be seen",
		})
	}
	return name + " is a socket"
}

// kind names what a file is that is not a socket.
func kind(m fs.FileMode) string {
	if m.IsRegular() {
		return "file"
	}
	return m.Type().String()
}

// listening reports whether a socket that accepts connections was bound to one of the paths, proc_net(5): bit 16 of the flags says that it accepts.
func (e *examination) listening(paths ...string) bool {
	for line := range strings.Lines(e.Host.read("/proc/net/unix")) {
		f := strings.Fields(line)
		if len(f) == 8 && f[3] == "00010000" && (slices.Contains(paths, f[7]) || slices.Contains(paths, e.Host.resolve(f[7]))) {
			return true
		}
	}
	return false
}
