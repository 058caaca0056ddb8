package supervisor

import (
	"slices"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// InService says whether a plugin does its work now.
func (p PluginStatus) InService() bool {
	return p.State == plugin.Ready.String() && p.Breaker.State == breaker.StateClosed.String()
}

// absent are the reasons of missing work for which a plugin that is in service need not be looked at: it was not in service then, or had no part in it.
func absent() []string {
	return []string{
		breaker.ReasonBreakerOpen.String(), breaker.ReasonHalfOpenFull.String(), breaker.ReasonNotReady.String(), breaker.ReasonDisabled.String(), breaker.ReasonBypass.String(),
		reasonSupervisorDown, reasonBeforeInstall, reasonStateLost,
	}
}

// missedInService tells of the plugins that are in service what they have missed since.
func (s *Supervisor) missedInService(plugins []PluginStatus) {
	since := map[string]time.Time{}
	for _, p := range plugins {
		if p.InService() && p.Missed > 0 {
			since[p.Name] = p.Since
			if p.Breaker.Since.After(p.Since) {
				since[p.Name] = p.Breaker.Since
			}
		}
	}
	if len(since) == 0 {
		return // no pass over the containers
	}
	defer s.opts.Computing()()
	sums := s.store.MissedSince(since)
	for i := range plugins {
		if _, counted := since[plugins[i].Name]; counted { // anew, so that the figures beside each other are of one moment
			plugins[i].Missed, plugins[i].MissedBy = 0, nil
		}
	}
	for k, sum := range sums {
		p := &plugins[slices.IndexFunc(plugins, func(p PluginStatus) bool { return p.Name == k.Plugin })]
		p.Missed += sum.Count
		p.MissedBy = append(p.MissedBy, ReasonSum{Reason: k.Reason, Count: sum.Count})
		if sum.Since > 0 && !slices.Contains(absent(), k.Reason) {
			p.MissedInService = append(p.MissedInService, ReasonSum{Reason: k.Reason, Count: sum.Since, First: sum.First})
		}
	}
	for _, p := range plugins {
		sortReasons(p.MissedBy)
		sortReasons(p.MissedInService)
	}
}
