package supervisor

import (
	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// teamLanes are the shares of the node's time that the plugins of one team have together, by team. What a team has used up outlives a reload. Used at the start and by reloads, one after
// the other; the zero value is ready for use.
type teamLanes map[string]*breaker.SharedLane

// apply makes the shares of a configuration those in force and gives each plugin its team's, or none.
func (t *teamLanes) apply(cfg *policy.Config, hosts []*host) {
	next := teamLanes{}
	for name, team := range cfg.Supervisor.Teams {
		if team.LaneShare == nil || team.LaneShare.Ratio == 0 {
			continue
		}
		ratio, burst := team.LaneShare.Ratio, team.LaneShare.Burst.Std()
		if next[name] = (*t)[name]; next[name] == nil {
			next[name] = breaker.NewSharedLane(ratio, burst)
		} else {
			next[name].Reconfigure(ratio, burst)
		}
	}
	*t = next
	for _, h := range hosts {
		h.guard.ShareLane(next[h.policy().Team])
	}
}
