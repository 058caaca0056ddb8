package statuspage

import (
	"fmt"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// Lately is for how long a refusal counts as trouble of now: twice the kubelet's longest wait before it tries a container again, which is five minutes.
const Lately = 10 * time.Minute

// LookTexts say why a plugin that is in service needs a look all the same: its breaker was open a moment ago and not for the first time, containers miss its work, or are refused for its sake. None for a plugin that is fine, or that is not in service.
func LookTexts(p supervisor.PluginStatus, now time.Time) []string {
	if !p.InService() {
		return nil
	}
	var out []string
	if text := FlapText(p, now); text != "" {
		out = append(out, text)
	}
	if list := p.MissedInService; len(list) > 0 {
		n, why := 0, make([]string, len(list))
		texts := reasonTexts()
		for i, r := range list {
			n += r.Count
			why[i] = fmt.Sprintf("%s %d", r.Reason, r.Count)
			if text := texts[r.Reason]; text != "" {
				why[i] += " (" + text + conflictText(p, r.Reason) + ")"
			}
		}
		run, all := "containers run", max(n, p.Missed) // as missed lists them
		if all == 1 {
			run = "container runs"
		}
		if all > n {
			out = append(out, fmt.Sprintf("%d %s without its work, %d of them although it was in service: %s", all, run, n, strings.Join(why, ", ")))
		} else {
			out = append(out, fmt.Sprintf("%d %s without its work although it is in service: %s", n, run, strings.Join(why, ", ")))
		}
	}
	var refused []string
	for _, r := range refusedLately(p, now) {
		refused = append(refused, r.Reason)
	}
	if len(refused) > 0 {
		out = append(out, "containers were refused for its sake in the last ten minutes: "+strings.Join(refused, ", "))
	}
	return out
}

// MeanwhileText says what happens now to containers that need a plugin which is not in service; "" where they are created without its work.
func MeanwhileText(p supervisor.PluginStatus) string {
	switch {
	case !p.FailsClosed || p.InService():
		return ""
	case p.State != plugin.Ready.String() || p.Breaker.State != breaker.StateHalfOpen.String():
		return "containers that need it are refused meanwhile"
	case p.Breaker.WaitsFor == supervisor.WaitVerdict:
		return "a trial call is under way: containers that need it are refused until that ends, and if it fails the one that it is about, too"
	default:
		return "the next event that selects it is the trial: a container is refused if its trial fails, and so are those that come during it"
	}
}

// refusedLately are the reasons for which containers were refused lately, but not on purpose: that is a plugin's work.
func refusedLately(p supervisor.PluginStatus, now time.Time) []supervisor.ReasonSum {
	var out []supervisor.ReasonSum
	for _, r := range p.RefusedBy {
		if r.Reason != breaker.OutcomeRejected.String() && !r.At.IsZero() && now.Sub(r.At) < Lately {
			out = append(out, r)
		}
	}
	return out
}

// conflictText names the plugins with which p is in conflict; "" for another reason.
func conflictText(p supervisor.PluginStatus, reason string) string {
	if reason != breaker.OutcomeConflict.String() || len(p.Conflicts) == 0 {
		return ""
	}
	const shown = 3
	var names []string
	for _, r := range p.Conflicts[:min(len(p.Conflicts), shown)] {
		names = append(names, r.Plugin)
	}
	if more := len(p.Conflicts) - shown; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return ": " + strings.Join(names, ", ")
}

// sentence begins with a capital letter and ends with a full stop.
func sentence(text string) string {
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
