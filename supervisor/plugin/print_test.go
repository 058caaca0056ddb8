package plugin_test

import (
	"fmt"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// printTimer writes a timer as parseInput reads it, without the verb.
func printTimer(t plugin.Timer) string {
	s := t.Kind.String()
	if t.Inc != 0 {
		s += fmt.Sprintf(" #%d", t.Inc)
	}
	if t.ID != 0 {
		s += fmt.Sprintf(" call=%d", t.ID)
	}
	if t.Seq != 0 {
		s += fmt.Sprintf(" seq=%d", t.Seq)
	}
	return s
}

func printResult(r plugin.Result) string {
	switch {
	case r.Withheld():
		return "withheld"
	case r.Delivered:
		return r.Outcome.String()
	default:
		return "refused " + r.Refused.String()
	}
}

// printInput names an input inside an effect.
func printInput(in plugin.Input) string {
	switch in := in.(type) {
	case plugin.Timer:
		return "timer " + printTimer(in)
	case plugin.Cancel:
		return fmt.Sprintf("cancel %d", in.ID)
	case plugin.Returned:
		return fmt.Sprintf("returned #%d %d %s", in.Inc, in.ID, in.Outcome)
	default:
		return strings.TrimSpace(fmt.Sprintf("%T %+v", in, in))
	}
}

// printEffect writes one effect on one line.
func printEffect(e plugin.Effect) string {
	switch e := e.(type) {
	case plugin.Launch:
		return fmt.Sprintf("launch #%d", e.Inc)
	case plugin.Synchronize:
		s := fmt.Sprintf("synchronize #%d %d", e.Inc, e.Sync)
		if e.Configure {
			s += " configure"
		}
		if e.Again {
			s += " again"
		}
		return s
	case plugin.StopProcess:
		return fmt.Sprintf("stop-process #%d", e.Inc)
	case plugin.KillProcess:
		return fmt.Sprintf("kill-process #%d %s", e.Inc, e.Why)
	case plugin.Admit:
		return fmt.Sprintf("admit %d %s", e.ID, e.PodKey)
	case plugin.Send:
		return fmt.Sprintf("send #%d %d for %s", e.Inc, e.ID, e.Timeout)
	case plugin.Answer:
		return fmt.Sprintf("answer %d %s", e.ID, printResult(e.Result))
	case plugin.Arm:
		return fmt.Sprintf("arm %s in %s", printTimer(e.Timer), e.After)
	case plugin.Verdict:
		return fmt.Sprintf("verdict %d %s", e.ID, e.Outcome)
	case plugin.Back:
		s := fmt.Sprintf("back %d", e.ID)
		if e.Late {
			s += " late"
		}
		return s
	case plugin.GuardHung:
		return "guard hung " + e.PodKey
	case plugin.GuardExited:
		return strings.TrimSpace("guard exited " + e.PodKey)
	case plugin.GuardStarted:
		if e.NewVersion {
			return "guard started new"
		}
		return "guard started"
	case plugin.GuardHealth:
		if e.OK {
			return "guard healthy"
		}
		return "guard unhealthy"
	case plugin.PhaseChanged:
		return fmt.Sprintf("phase %s -> %s", e.From, e.To)
	case plugin.Swapped:
		return fmt.Sprintf("swapped #%d #%d", e.Old, e.New)
	case plugin.ReplaceFailed:
		return fmt.Sprintf("replace failed #%d: %s", e.Inc, e.Why)
	case plugin.Stale:
		return "stale " + printInput(e.Input)
	case plugin.Violation:
		return fmt.Sprintf("VIOLATION in %s: %s (%s)", e.Phase, e.What, printInput(e.Input))
	}
	return fmt.Sprintf("UNKNOWN EFFECT %T", e)
}

// printEffects writes effects, a run of equal answers to consecutive calls as one line.
func printEffects(effects []plugin.Effect) []string {
	var out []string
	for i := 0; i < len(effects); i++ {
		first, ok := effects[i].(plugin.Answer)
		last := first
		for ok && i+1 < len(effects) {
			next, same := effects[i+1].(plugin.Answer)
			if !same || next.ID != last.ID+1 || next.Result != first.Result {
				break
			}
			last = next
			i++
		}
		if ok && last.ID > first.ID {
			out = append(out, fmt.Sprintf("answer %d..%d %s", first.ID, last.ID, printResult(first.Result)))
		} else {
			out = append(out, printEffect(effects[i]))
		}
	}
	return out
}
