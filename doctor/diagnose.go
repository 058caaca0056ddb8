package doctor

import (
	"cmp"
	"strconv"
	"time"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// Input is what a diagnosis is of.
type Input struct {
	// Host is the node.
	Host Host
	// Config is the configuration; nil: it cannot be used, and ConfigErr says why.
	Config    *policy.Config
	ConfigErr error
	// ConfigFile is where the configuration was read, an absolute path; empty: the built-in defaults are used.
	ConfigFile string
	// Live is the running supervisor.
	Live Live
	// AdminSocket is the socket on which it was asked, if that is not the configuration's; empty: it is.
	AdminSocket string
	// SocketOf says which runtime's socket the configuration in a file of the node names, also below /proc/PID/root; nil, or an empty answer: unknown.
	SocketOf func(config string) string
}

// Live is what the running supervisor says of itself.
type Live struct {
	// Silent says why it did not answer; empty: it did.
	Silent string
	// Hint is what to do about that.
	Hint string
	// Denied says that it runs and does not talk to us.
	Denied bool

	// Connected says that it is registered with a runtime. If not, Reason, Why and Remedy are its own words.
	Connected           bool
	Reason, Why, Remedy string
	// Runtime, Version and NRIVersion are what the runtime says of itself.
	Runtime, Version, NRIVersion string
	// RequestTimeout is the runtime's; 0: not known.
	RequestTimeout time.Duration
	// Disabled are the plugins that an operator has switched off.
	Disabled []string
	// Out are the plugins that are not in service, of those that an operator has switched off only the ones for whose sake containers are refused meanwhile.
	Out []Outage
	// Refusals are the containers that were refused lately because a plugin's work was missing.
	Refusals []Refusal
	// Bypass says that no plugin is called for now.
	Bypass bool
}

// answers says whether the running supervisor talks to us.
func (l Live) answers() bool { return l.Silent == "" && !l.Denied }

// taken is the reason of a supervisor that waits for another one.
const taken = "taken"

// examination is one diagnosis under way.
type examination struct {
	Input
	spec    policy.SupervisorSpec
	plugins []*policy.Plugin

	// supervisors are the processes that are supervisors of our runtime, runtimes what the runtimes' files say.
	supervisors []process
	// unsure are supervisors of which the runtime cannot be seen.
	unsure   []process
	runtimes []runtimeConfig
	// files is what is to be said of runtimes' files that cannot be used.
	files []Finding

	findings []Finding
	check    Check
}

// Diagnose looks at a node.
func Diagnose(in Input) Report {
	e := &examination{Input: in}
	config := in.Config
	if config == nil {
		config, _ = policy.Parse(nil, policy.LoadOptions{}) // the built-in defaults are valid
	}
	if config != nil {
		e.spec, e.plugins = config.Supervisor, config.Plugins
	}
	e.spec.Admin.Socket = cmp.Or(in.AdminSocket, e.spec.Admin.Socket)
	all := in.Host.processes()
	e.ours(supervisorsOf(all))
	e.runtimes, e.files = in.Host.runtimeConfigs(all, in.Live)
	for _, c := range Checks() {
		e.check = c
		before := len(e.findings)
		good := e.run(c)
		if len(e.findings) == before {
			e.findings = append(e.findings, Finding{Check: c, What: good})
		}
	}
	return report(e.findings)
}

// run runs one check and returns what to say if it finds nothing.
func (e *examination) run(c Check) (good string) {
	switch c {
	case Configuration:
		return e.configuration()
	case Service:
		return e.service()
	case NRI:
		return e.nri()
	case Socket:
		return e.socket()
	case Timeouts:
		return e.timeouts()
	case Cgroups:
		return e.cgroups()
	case Landlock:
		return e.landlock()
	case Seccomp:
		return e.seccomp()
	case Runtime:
		return e.runtime()
	case Required:
		return e.required()
	case Annotations:
		return e.annotations()
	case Supervisors:
		return e.twoSupervisors()
	default:
		return ""
	}
}

// add adds a finding of the check that runs.
func (e *examination) add(f Finding) {
	f.Check = e.check
	e.findings = append(e.findings, f)
}

// self is the process whose view of the node counts: the supervisor, if one is seen, else this one.
func (e *examination) self() string {
	if len(e.supervisors) == 1 {
		return strconv.Itoa(e.supervisors[0].pid)
	}
	return "self"
}

// at is a place in a file.
func at(file string, line int) string {
	if line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}
