package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Outage is a plugin that does not do its work now.
type Outage struct {
	Plugin string
	// State says in a few words what it is instead of being in service.
	State string
	// FailsClosed says that containers are refused meanwhile.
	FailsClosed bool
}

// Refusal is why containers were refused lately.
type Refusal struct {
	// Plugin is for whose sake; empty: for one that is not hosted, or for an annotation that cannot be read.
	Plugin string
	// Reason is a label value of the metric fallbacks_total.
	Reason string
	// Count is how often since the start of the supervisor, Ago how long ago the last time was.
	Count int
	Ago   time.Duration
}

// reasonRequired is the reason of a refusal for a required plugin that has no part in a container.
const reasonRequired = "required"

// serves says whether the running supervisor calls plugins.
func (l Live) serves() bool { return l.answers() && l.Connected && !l.Bypass }

// refuses says whether containers are refused for the sake of a plugin that is out of service.
func (l Live) refuses(o Outage) bool {
	return o.FailsClosed || slices.ContainsFunc(l.Refusals, func(r Refusal) bool { return r.Plugin == o.Plugin })
}

// outages is about plugins that are not in service, or for whose sake containers are refused. Those that are required for every container are left to another check.
func (e *examination) outages() {
	var refuse, open []string
	for _, o := range e.Live.Out {
		switch {
		case slices.Contains(e.spec.RequiredPlugins, o.Plugin):
		case e.Live.refuses(o):
			refuse = append(refuse, o.Plugin+" ("+o.State+")")
		default:
			open = append(open, o.Plugin)
		}
	}
	const why = "nri-supervisor status says why, and whom to ask"
	if len(refuse) > 0 {
		e.add(Finding{
			Result: Problem, What: fmt.Sprintf("%s not in service, and containers are refused meanwhile: %s", are(len(refuse)), strings.Join(refuse, ", ")), Where: e.spec.Admin.Socket, Mend: why,
		})
	}
	if len(open) > 0 {
		e.add(Finding{Result: Warning, What: fmt.Sprintf("%s not in service: %s", are(len(open)), strings.Join(open, ", ")), Mend: why})
	}
	for _, r := range e.Live.Refusals {
		if r.Reason != reasonRequired && r.Plugin != "" && !slices.ContainsFunc(e.Live.Out, func(o Outage) bool { return o.Plugin == r.Plugin }) {
			e.add(Finding{
				Result: Warning, What: fmt.Sprintf("plugin %s is in service, and containers were refused for its sake, the last %s ago", r.Plugin, r.Ago.Round(time.Second)), Where: e.spec.Admin.Socket,
				Value: fmt.Sprintf("%s %d", r.Reason, r.Count), Mend: "nri-supervisor events --action failed --plugin " + r.Plugin,
			})
		}
	}
}

func are(n int) string {
	if n == 1 {
		return "1 plugin is"
	}
	return fmt.Sprintf("%d plugins are", n)
}

// requiredNow is about plugins that the configuration requires and that are not in service or have no part in containers.
func (e *examination) requiredNow() {
	for _, o := range e.Live.Out {
		if slices.Contains(e.spec.RequiredPlugins, o.Plugin) && !slices.Contains(e.Live.Disabled, o.Plugin) {
			e.add(Finding{
				Result: Problem, What: "the required plugin " + o.Plugin + " is not in service (" + o.State + "), so that no container but those of critical pods is created", Where: e.ConfigFile,
				Value: "spec.requiredPlugins", Mend: "nri-supervisor plugin show " + o.Plugin + " says why, and whom to ask",
			})
		}
	}
	for _, r := range e.Live.Refusals {
		if r.Reason == reasonRequired && slices.Contains(e.spec.RequiredPlugins, r.Plugin) {
			e.add(e.noPart(r, Problem))
		}
	}
}

// noPart is a refusal for the sake of a plugin that has no part in the container.
func (e *examination) noPart(r Refusal, result Result) Finding {
	return Finding{
		Result: result, What: fmt.Sprintf("containers are refused that require plugin %s, which has no part in them, the last %s ago", r.Plugin, r.Ago.Round(time.Second)), Where: e.spec.Admin.Socket,
		Value: fmt.Sprintf("%s %d", r.Reason, r.Count), Mend: "nri-supervisor events --action failed --plugin " + r.Plugin + " says why: correct its selector, or the pods' annotation",
	}
}

// annotations is about containers that were refused for what their own pods' annotations require. Whoever may create a pod could otherwise make the node look broken: a plugin that the
// configuration requires is another check's.
func (e *examination) annotations() string {
	if !e.Live.serves() {
		return "not looked at while no supervisor calls plugins"
	}
	for _, r := range e.Live.Refusals {
		switch {
		case r.Reason != reasonRequired || slices.Contains(e.spec.RequiredPlugins, r.Plugin):
		case r.Plugin != "":
			e.add(e.noPart(r, Warning))
		default:
			e.add(Finding{
				Result: Warning, What: fmt.Sprintf("containers are refused that require a plugin which is not hosted, the last %s ago", r.Ago.Round(time.Second)), Where: e.spec.Admin.Socket,
				Value: fmt.Sprintf("%s %d", r.Reason, r.Count), Mend: "nri-supervisor events --action failed names plugin and pods: host the plugin, or correct the pods' annotation",
			})
		}
	}
	return "no pod was refused lately for what its annotation requires"
}
