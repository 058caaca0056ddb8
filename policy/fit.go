package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
)

const (
	// minMargin and maxMargin clamp the margin, a tenth of the runtime's timeout, that is kept for the reply.
	minMargin = 20 * time.Millisecond
	maxMargin = 200 * time.Millisecond
)

// budget is what remains of the runtime's timeout for calls to plugins.
func budget(runtimeTimeout time.Duration) time.Duration {
	return runtimeTimeout - min(max(runtimeTimeout/10, minMargin), maxMargin)
}

// TimeoutWarnings says which plugins' timeouts do not fit in the time that the runtime gives for one
// request: single ones, and all those that wait for each other at one event. Load has put those for
// DefaultRuntimeTimeout in Problems; call it again when the runtime has said its own. Whether two
// plugins ever select the same container is not looked at, so a warning may be about a
// case that does not happen.
func (c *Config) TimeoutWarnings(runtimeTimeout time.Duration) Problems {
	limit := budget(runtimeTimeout)
	var out Problems
	for _, p := range c.Plugins {
		out = append(out, p.tooLong(limit, runtimeTimeout)...)
	}
	// Events with the same sum are told in one warning.
	var order []string
	events := map[string][]string{}
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		sum, members := c.worstCase(e)
		if sum <= limit || len(members) < 2 {
			continue
		}
		text := fmt.Sprintf("the timeouts of %d plugins (%s) add up to %s, more than the %s that remain of the runtime's %s",
			len(members), strings.Join(members, ", "), sum, limit, runtimeTimeout)
		if events[text] == nil {
			order = append(order, text)
		}
		events[text] = append(events[text], e.PrettyName())
	}
	for _, text := range order {
		out = append(out, Problem{
			Severity: Warning, Field: "spec.timeouts",
			Message: fmt.Sprintf("at %s %s", strings.Join(events[text], ", "), text),
			Remedy:  "shorten them, or know that when all of these are slow on one container the last ones are cut short",
		})
	}
	return out.sorted()
}

// tooLong says which timeouts of the plugin alone exceed the limit.
func (p *Plugin) tooLong(limit, runtimeTimeout time.Duration) Problems {
	var out Problems
	byTimeout := map[time.Duration][]string{}
	var order []time.Duration
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		t := p.Timeout(e)
		if !p.Blocking(e) || !p.subscribes(e) || t <= limit {
			continue
		}
		if byTimeout[t] == nil {
			order = append(order, t)
		}
		byTimeout[t] = append(byTimeout[t], e.PrettyName())
	}
	slices.Sort(order)
	for _, t := range order {
		out = append(out, Problem{
			File: p.File, Line: p.Line, Field: "spec.timeouts", Plugin: p.Name, Severity: Warning,
			Message: fmt.Sprintf("the timeout of %s at %s is more than the %s that remain of the runtime's %s",
				t, strings.Join(byTimeout[t], ", "), limit, runtimeTimeout),
			Remedy: "write " + limit.String() + " or less, or raise the runtime's plugin_request_timeout",
		})
	}
	return out
}

// subscribes says whether the manifest lets the plugin have the event.
func (p *Plugin) subscribes(e api.Event) bool { return p.events == 0 || inMask(p.events, e) }

// worstCase adds up the timeouts of all plugins that the runtime waits for at the event. Parallel
// plugins of one index count once, with the longest.
func (c *Config) worstCase(e api.Event) (sum time.Duration, members []string) {
	stage, stageIndex := time.Duration(0), ""
	for _, p := range c.Plugins {
		if !p.Blocking(e) || !p.subscribes(e) {
			continue
		}
		members = append(members, p.Name+" "+p.Timeout(e).String())
		if c.parallelStage(p.Index) && p.Index == stageIndex {
			longer := max(stage, p.Timeout(e))
			sum += longer - stage
			stage = longer
			continue
		}
		stage, stageIndex = p.Timeout(e), p.Index
		sum += stage
	}
	return sum, members
}

// parallelStage says whether all plugins of the index say parallel.
func (c *Config) parallelStage(index string) bool {
	for _, p := range c.Plugins {
		if p.Index == index && !p.Spec.Parallel {
			return false
		}
	}
	return true
}
