package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Result is what a check found. It is a closed set; the zero value is OK.
type Result uint8

const (
	// OK means that what was looked at is as it should be.
	OK Result = iota
	// Warning is for a person to read; all that was asked for works.
	Warning
	// Unknown means that it could not be seen.
	Unknown
	// Problem means that work of plugins is, or soon will be, missing from containers, or that containers will be refused, for a reason that lies on the node and not in a pod.
	Problem
)

// String returns "ok", "warning", "unknown" or "problem".
func (r Result) String() string {
	switch r {
	case OK:
		return "ok"
	case Warning:
		return "warning"
	case Unknown:
		return "unknown"
	case Problem:
		return "problem"
	default:
		return fmt.Sprintf("result(%d)", uint8(r))
	}
}

// MarshalText is String, for JSON.
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Check names one question about the node. It is a closed set.
type Check string

const (
	// Configuration asks whether the configuration and the manifests can be used.
	Configuration Check = "config"
	// Service asks whether the supervisor answers and is registered with the runtime.
	Service Check = "service"
	// NRI asks whether NRI is on in the runtime's own configuration.
	NRI Check = "nri"
	// Socket asks whether the runtime's NRI socket can be reached, also after the runtime has restarted.
	Socket Check = "socket"
	// Timeouts asks whether the plugins' timeouts fit into the runtime's.
	Timeouts Check = "timeouts"
	// Cgroups asks whether each plugin can have a control group with the limits of its manifest.
	Cgroups Check = "cgroups"
	// Landlock asks whether the kernel can confine files and shield processes.
	Landlock Check = "landlock"
	// Seccomp asks whether the kernel can filter system calls.
	Seccomp Check = "seccomp"
	// Runtime asks whether this version of the runtime is known for faults that plugins meet.
	Runtime Check = "runtime"
	// Required asks whether required plugins can ever do their work.
	Required Check = "required"
	// Annotations asks whether pods that run into a refusal by their own annotation were seen lately: the mistake is a pod author's, and no fault of the node.
	Annotations Check = "annotations"
	// Supervisors asks whether more than one supervisor wants the runtime.
	Supervisors Check = "supervisors"
)

// Checks returns all checks in the order of the report.
func Checks() []Check {
	return []Check{Configuration, Service, NRI, Socket, Timeouts, Cgroups, Landlock, Seccomp, Runtime, Required, Annotations, Supervisors}
}

// Finding is what one check found.
type Finding struct {
	// Check is who found it.
	Check Check `json:"check"`
	// Result says how bad it is.
	Result Result `json:"result"`
	// What is wrong, or why all is well, or what could not be seen.
	What string `json:"what"`
	// Where is the file, with the line if it is known, or the path that is meant. It may be empty.
	Where string `json:"where,omitempty"`
	// Value is what stands or was seen there. It may be empty.
	Value string `json:"value,omitempty"`
	// Mend says what to do. Empty only where all is well.
	Mend string `json:"mend,omitempty"`
}

// Report is the whole diagnosis.
type Report struct {
	// Result is Problem if any finding is one, else Unknown if any is, else Warning if any is, else OK.
	Result Result `json:"result"`
	// Findings has at least one finding of each check.
	Findings []Finding `json:"findings"`
}

// Exit codes, as node-problem-detector takes them from a custom plugin: https://github.com/kubernetes/node-problem-detector, custom plugin monitor.
const (
	ExitOK      = 0
	ExitProblem = 1
	ExitUnknown = 2
)

// ExitCode is 1 for a problem, 2 when something that matters could not be seen, else 0: a warning alone is none.
func (r Report) ExitCode() int {
	switch r.Result {
	case Problem:
		return ExitProblem
	case Unknown:
		return ExitUnknown
	case OK, Warning:
		return ExitOK
	default:
		return ExitUnknown
	}
}

// Summary is one line of at most 80 bytes, the length that node-problem-detector shows by default.
func (r Report) Summary() string {
	const limit = 80
	var parts []string
	for _, result := range []Result{Problem, Unknown, Warning} {
		n, checks := 0, []string{}
		for _, f := range r.Findings {
			if f.Result != result {
				continue
			}
			n++
			if !slices.Contains(checks, string(f.Check)) {
				checks = append(checks, string(f.Check))
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", n, plural(result, n), strings.Join(checks, ", ")))
		}
	}
	if parts == nil {
		return fmt.Sprintf("ok: %d checks, nothing is wrong", len(Checks()))
	}
	line := strings.Join(parts, ", ")
	if len(line) > limit {
		line = line[:limit-3] + "..."
	}
	return line
}

func plural(r Result, n int) string {
	if n == 1 || r == Unknown {
		return r.String()
	}
	return r.String() + "s"
}

// report puts findings together.
func report(findings []Finding) Report {
	r := Report{Findings: findings}
	for _, f := range findings {
		r.Result = max(r.Result, f.Result)
	}
	return r
}
