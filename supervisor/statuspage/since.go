package statuspage

import (
	"fmt"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// Since is since when a plugin is in service or, as far as its state and its breaker tell, out of service; the page and the command line show it. A plugin that starts again and again behind an
// open breaker, is tried in vain, is closed for a moment and opened again, or needs a look while it is closed, counts from its first failure; one that needs a look for what is missing or was refused
// since it is in service, from the first of that.
func Since(p supervisor.PluginStatus, now time.Time) time.Time {
	if p.Breaker.Since.IsZero() { // it has no breaker
		return p.Since
	}
	stateBad, breakerBad := p.State != plugin.Ready.String(), p.Breaker.State != breaker.StateClosed.String()
	breakerFirst := p.Breaker.Since.Before(p.Since)
	at := p.Since
	if stateBad && breakerBad && breakerFirst || breakerBad && !stateBad || !stateBad && !breakerBad && !breakerFirst {
		at = p.Breaker.Since
	}
	looks := len(LookTexts(p, now)) > 0
	if first := firstTrouble(p, now); looks && first.After(at) {
		at = first
	}
	since, fails := p.Breaker.Opening.Failing(now)
	if fails && since.Before(at) && (tripped(p) || looks) {
		at = since
	}
	return at
}

// firstTrouble is when the first of what LookTexts says of missing work and of refusals came about; zero: not since the plugin is in service.
func firstTrouble(p supervisor.PluginStatus, now time.Time) time.Time {
	var first time.Time
	for _, r := range append(refusedLately(p, now), p.MissedInService...) {
		if !r.First.IsZero() && (first.IsZero() || r.First.Before(first)) {
			first = r.First
		}
	}
	return first
}

// tripped reports whether the breaker is open or tries the plugin, and no operator did it.
func tripped(p supervisor.PluginStatus) bool {
	return p.Breaker.State == breaker.StateOpen.String() || p.Breaker.State == breaker.StateHalfOpen.String()
}

// FlapText says that a plugin has been failing for longer than its breaker is open, or although it is closed just now; "" for another. The plugin is well again when everything that failed has
// gone well for ten minutes.
func FlapText(p supervisor.PluginStatus, now time.Time) string {
	o := p.Breaker.Opening
	since, fails := o.Failing(now)
	if !fails || !o.Flaps(now) && !refusedAfter(p, o.Closed) {
		return ""
	}
	times := "once"
	if o.Times > 1 {
		times = fmt.Sprintf("%d times", o.Times)
	}
	text := fmt.Sprintf("it has been failing since %s: its breaker opened %s", since.UTC().Format(time.RFC3339), times)
	if !o.Closed.IsZero() {
		text += ", and is closed only since " + o.Closed.UTC().Format(time.RFC3339)
		if len(o.Unmended) > 0 {
			text += "; not good since it failed: " + strings.Join(o.Unmended, ", ")
		}
	}
	return text
}

// refusedAfter reports whether a container was refused for the plugin's sake, and not on purpose, after its breaker was closed.
func refusedAfter(p supervisor.PluginStatus, closed time.Time) bool {
	for _, r := range p.RefusedBy {
		if !closed.IsZero() && r.Reason != breaker.OutcomeRejected.String() && r.At.After(closed) { // to refuse on purpose is its work
			return true
		}
	}
	return false
}
