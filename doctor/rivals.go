package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// supervisorsOf picks the supervisors: started by hand or as a service with run, or by a runtime as IDX-NAME without arguments.
func supervisorsOf(all []process) []process {
	const name = "nri-supervisor"
	var out []process
	for _, p := range all {
		index, rest, cut := strings.Cut(p.name(), "-")
		started := cut && len(index) == 2 && rest == name && len(p.args) == 1
		if started || p.name() == name && slices.Contains(p.args[1:], "run") {
			out = append(out, p)
		}
	}
	return out
}

// ours sorts out which supervisors are of our runtime, and of which that cannot be seen. A single one is taken for ours.
func (e *examination) ours(all []process) {
	for _, p := range all {
		switch socket := e.runtimeOf(p); {
		case socket == "":
			e.unsure = append(e.unsure, p)
		case e.Host.resolve(socket) == e.Host.resolve(e.spec.Runtime.Socket):
			e.supervisors = append(e.supervisors, p)
		}
	}
	if len(e.supervisors) == 0 && len(e.unsure) == 1 {
		e.supervisors, e.unsure = e.unsure, nil
	}
}

// runtimeOf is the socket of the runtime that a supervisor wants; empty: it cannot be seen.
func (e *examination) runtimeOf(p process) string {
	file := p.flag("--config")
	if file == "" {
		return e.spec.Runtime.Socket
	}
	proc := fmt.Sprintf("/proc/%d/", p.pid)
	if !path.IsAbs(file) {
		dir, err := e.Host.Files.ReadLink(inside(proc + "cwd"))
		if err != nil {
			return ""
		}
		file = path.Join(dir, file)
	}
	if e.SocketOf != nil {
		if socket := e.SocketOf(path.Join(proc, "root", file)); socket != "" { // as it sees the files, also in a container
			return socket
		}
	}
	if file == e.ConfigFile {
		return e.spec.Runtime.Socket
	}
	if e.SocketOf == nil {
		return ""
	}
	return e.SocketOf(file)
}

// twoSupervisors is about others that want the same runtime.
func (e *examination) twoSupervisors() string {
	if e.Live.answers() && e.Live.Reason == taken {
		e.add(Finding{Result: Problem, What: "another supervisor serves this runtime, and ours waits for it to end", Where: e.spec.Runtime.Socket, Mend: "stop one of them"})
	}
	var same []string
	for _, p := range e.supervisors {
		same = append(same, fmt.Sprintf("%d (%s)", p.pid, strings.Join(p.args, " ")))
	}
	if len(same) > 1 {
		e.add(Finding{
			Result: Problem, What: fmt.Sprintf("%d supervisors want this runtime; one serves it and the others wait", len(same)), Where: e.spec.Runtime.Socket,
			Value: "processes " + strings.Join(same, ", "), Mend: "stop all but one, for example the systemd service or the DaemonSet",
		})
	}
	var note strings.Builder
	for _, p := range e.unsure {
		fmt.Fprintf(&note, "; which runtime process %d (%s) wants cannot be seen, for want of its configuration", p.pid, strings.Join(p.args, " "))
	}
	if len(same) == 0 {
		return "none is seen to run for this runtime" + note.String()
	}
	return "process " + same[0] + " is the only one" + note.String()
}
