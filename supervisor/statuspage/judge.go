package statuspage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// Level says how bad it is. It is a closed set, ordered from bad to good.
type Level string

// The levels.
const (
	// Broken is a plugin that does not do its work, also one that was switched off if containers are refused then, or a supervisor without a runtime.
	Broken Level = "broken"
	// Look is a plugin in service from whose work something is missing all the same, or that requests are refused for what no plugin is in service for.
	Look Level = "look"
	// Off is a plugin that an operator switched off.
	Off Level = "off"
	// Waiting is a plugin that comes up, or waits for the runtime.
	Waiting Level = "waiting"
	// Fine is a plugin in service.
	Fine Level = "fine"
)

// rank is the place in the order.
func (l Level) rank() int { return slices.Index([]Level{Broken, Look, Off, Waiting, Fine}, l) }

// Judgement is what there is to say about one plugin.
type Judgement struct {
	Plugin string `json:"plugin"`
	Level  Level  `json:"level"`
	// Why is the reason in a sentence, and what it means for containers in another; empty for a plugin in service.
	Why string `json:"why,omitempty"`
	// Since is when it became so, in milliseconds since 1970.
	Since int64 `json:"since"`
	// Waits says what its breaker waits for, Opened why it opened; empty where there is nothing to say.
	Waits  string `json:"waits,omitempty"`
	Opened string `json:"opened,omitempty"`
	// Try is the command that tells more or ends it.
	Try string `json:"try,omitempty"`
}

// judge judges every plugin, the ones in trouble first, else in calling order.
func judge(o supervisor.Overview) []Judgement {
	out := make([]Judgement, 0, len(o.Plugins))
	for _, p := range o.Plugins {
		out = append(out, judgePlugin(p, o.Runtime.Connected, o.Now))
	}
	slices.SortStableFunc(out, func(a, b Judgement) int { return cmp.Compare(a.Level.rank(), b.Level.rank()) })
	return out
}

// attachGrace is how long a plugin that attaches may take to come before it is called broken: longer than a pod of a DaemonSet takes to start again.
const attachGrace = time.Minute

func judgePlugin(p supervisor.PluginStatus, connected bool, now time.Time) Judgement {
	j := Judgement{Plugin: p.Name, Level: Broken, Since: Since(p, now).UnixMilli(), Try: "nri-supervisor plugin show " + p.Name}
	switch {
	case p.State == "invalid":
		j.Why, j.Try = "Its manifest cannot be used.", "nri-supervisor check"
	case p.State == plugin.Disabled.String() || p.Breaker.State == breaker.StateDisabled.String():
		j.Level, j.Why, j.Try = Off, "An operator disabled it.", "nri-supervisor plugin enable "+p.Name
	case p.Breaker.State == breaker.StateForcedOpen.String():
		j.Level, j.Why, j.Try = Off, "An operator tripped its breaker.", "nri-supervisor plugin reset "+p.Name
	case p.State == plugin.CrashLoop.String():
		j.Why = "It ends again and again, so it is started rarely."
	case p.Awaited != "":
		j.Why = "Nobody is connected to " + p.Awaited + "."
		if p.Missed == 0 && now.Sub(p.Since) < attachGrace {
			j.Level = Waiting
		}
	case tripped(p):
		j.Why = trippedText(p.Breaker)
	case p.State == plugin.Backoff.String():
		j.Why = "It ended and is about to be started again."
	case p.State == plugin.Ready.String():
		j.Level, j.Try = Fine, ""
		if texts := LookTexts(p, now); len(texts) > 0 {
			j.Level, j.Why, j.Try = Look, sentence(strings.Join(texts, "; ")), "nri-supervisor plugin show "+p.Name
		}
	case !connected && p.State == plugin.Syncing.String():
		j.Level, j.Why, j.Try = Waiting, "It is there and waits for the runtime.", ""
	default:
		j.Level, j.Why, j.Try = Waiting, "It is "+p.State+".", ""
	}
	j.Waits = WaitText(p.Breaker.WaitsFor)
	if o := p.Breaker.Opening; o != nil {
		j.Opened = CauseText(o.Cause)
	}
	if text := FlapText(p, now); tripped(p) && text != "" {
		j.Why += " " + sentence(text)
	}
	if p.FailsClosed && (j.Level == Broken || j.Level == Off) {
		j.Level = Broken
		j.Why += " " + sentence(MeanwhileText(p))
	}
	return j
}

// trippedText says why a breaker is open or tries its plugin, and how the plugin failed last: that is what somebody who can mend it needs first.
func trippedText(v supervisor.BreakerView) string {
	text := "Its circuit breaker is open: " + CauseText(v.Cause) + "."
	if v.State == breaker.StateHalfOpen.String() {
		text = "Its circuit breaker tries it with single calls: " + CauseText(v.Cause) + "."
		if v.Opening != nil {
			text = "Its circuit breaker tries it with single calls. It was opened because " + CauseText(v.Opening.Cause) + "."
		}
	}
	if o := v.Opening; o != nil && o.Last != nil && o.Last.Detail != "" {
		text += " Last error: " + bounded(o.Last.Detail, inSentence)
		if !strings.HasSuffix(text, ".") {
			text += "."
		}
	}
	return text
}

// verdict is the first thing that a person reads.
func verdict(o supervisor.Overview, judged []Judgement) (Level, string) {
	var broken, look, off, waiting []string
	for _, j := range judged {
		switch j.Level {
		case Broken:
			broken = append(broken, j.Plugin)
		case Look:
			look = append(look, j.Plugin)
		case Off:
			off = append(off, j.Plugin)
		case Waiting:
			waiting = append(waiting, j.Plugin)
		case Fine:
		}
	}
	var more string // beside what is worse
	if len(look) > 0 {
		more += " Needs a look: " + strings.Join(look, ", ") + "."
	}
	if !o.RefusedUnhostedAt.IsZero() && o.Now.Sub(o.RefusedUnhostedAt) < Lately {
		more += " Containers are refused that require a plugin which is not hosted: nri-supervisor events --action failed names it."
	}
	switch {
	case !o.Runtime.Connected && o.Runtime.Reason == "":
		return Waiting, "Not connected to the container runtime yet."
	case !o.Runtime.Connected:
		return Broken, "Not connected to the container runtime: " + o.Runtime.Reason + "."
	case o.Bypass != nil:
		return Off, "Bypassed: no plugin is called until an operator ends it or the time is over."
	case len(broken) == 1:
		return Broken, "1 of " + plugins(len(judged)) + " is broken: " + broken[0] + "." + more
	case len(broken) > 1:
		return Broken, fmt.Sprintf("%d of %s are broken: %s.", len(broken), plugins(len(judged)), strings.Join(broken, ", ")) + more
	case more != "" && len(off) > 0:
		return Look, more[1:] + " Switched off by an operator: " + strings.Join(off, ", ") + "."
	case more != "":
		return Look, more[1:]
	case len(off) > 0:
		return Off, "Switched off by an operator: " + strings.Join(off, ", ") + "."
	case len(waiting) > 0:
		return Waiting, "Coming up: " + strings.Join(waiting, ", ") + "."
	case len(judged) == 0:
		return Fine, "No plugin is configured."
	case len(judged) == 1:
		return Fine, "The plugin is in service."
	default:
		return Fine, "All " + plugins(len(judged)) + " are in service."
	}
}

func plugins(n int) string {
	if n == 1 {
		return "1 plugin"
	}
	return fmt.Sprintf("%d plugins", n)
}
