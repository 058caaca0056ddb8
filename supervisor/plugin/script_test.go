package plugin_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// words reads one line of a conversation word by word. The first mistake is kept.
type words struct {
	left []string
	err  error
}

func (w *words) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *words) next() string {
	if len(w.left) == 0 {
		w.fail("a word is missing at the end of the line")
		return ""
	}
	s := w.left[0]
	w.left = w.left[1:]
	return s
}

// take takes the next word if it is s.
func (w *words) take(s string) bool {
	if len(w.left) == 0 || w.left[0] != s {
		return false
	}
	w.left = w.left[1:]
	return true
}

// value takes the next word if it has the form key=value.
func (w *words) value(key string) (string, bool) {
	if len(w.left) == 0 || !strings.HasPrefix(w.left[0], key+"=") {
		return "", false
	}
	return w.next()[len(key)+1:], true
}

func (w *words) number() uint64 {
	n, err := strconv.ParseUint(w.next(), 10, 64)
	if err != nil {
		w.fail("read number: %w", err)
	}
	return n
}

func (w *words) id() plugin.CallID { return plugin.CallID(w.number()) }

// inc reads an incarnation: #1.
func (w *words) inc() plugin.Incarnation {
	s, ok := strings.CutPrefix(w.next(), "#")
	n, err := strconv.ParseUint(s, 10, 64)
	if !ok || err != nil {
		w.fail("an incarnation is written #1, not %q", s)
	}
	return plugin.Incarnation(n)
}

func (w *words) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		w.fail("read duration: %w", err)
	}
	return d
}

// ref reads a pod (p1) or a container (p1/c1).
func parseRef(s string) plugin.Ref {
	pod, ctr, _ := strings.Cut(s, "/")
	return plugin.Ref{Pod: pod, Container: ctr}
}

func (w *words) event() api.Event {
	s := w.next()
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		if e.PrettyName() == s {
			return e
		}
	}
	w.fail("unknown event %q", s)
	return api.Event_UNKNOWN
}

func (w *words) outcome() breaker.Outcome {
	s := w.next()
	for _, o := range breaker.Outcomes() {
		if o.String() == s {
			return o
		}
	}
	w.fail("unknown outcome %q", s)
	return breaker.OutcomeSuccess
}

func (w *words) reason() breaker.Reason {
	s := w.next()
	for _, r := range breaker.Reasons() {
		if r.String() == s {
			return r
		}
	}
	w.fail("unknown reason %q", s)
	return breaker.ReasonNone
}

// queued reports whether an event is delivered as a notification by default.
func queued(e api.Event) bool {
	return strings.HasPrefix(e.PrettyName(), "Post") || e == api.Event_REMOVE_CONTAINER || e == api.Event_REMOVE_POD_SANDBOX
}

// call reads "1 CreateContainer p1/c1 [share=200ms] [timeout=500ms] [overdue=5s] [queued] [vanished]". A share is as long as the timeout by default.
func (w *words) call(now time.Time) plugin.Request {
	r := plugin.Request{ID: w.id(), Event: w.event(), Ref: parseRef(w.next()), Timeout: 500 * time.Millisecond, Overdue: 5 * time.Second}
	r.PodKey, r.Blocking = "uid-"+r.Ref.Pod, !queued(r.Event)
	share := time.Duration(-1)
	for len(w.left) > 0 && w.err == nil {
		if v, ok := w.value("share"); ok {
			share = w.duration(v)
		} else if v, ok := w.value("timeout"); ok {
			r.Timeout = w.duration(v)
		} else if v, ok := w.value("overdue"); ok {
			r.Overdue = w.duration(v)
		} else if w.take("queued") {
			r.Blocking = false
		} else if w.take("vanished") {
			r.Blocking, r.Vanished = false, true
		} else {
			w.fail("unknown option %q of a call", w.next())
		}
	}
	if share < 0 {
		share = r.Timeout
	}
	if r.Blocking {
		r.Deadline = now.Add(share)
	}
	return r
}

func (w *words) synced() plugin.Synced {
	in := plugin.Synced{Inc: w.inc(), Sync: w.number(), Mask: api.ValidEvents}
	for len(w.left) > 0 && w.err == nil {
		if v, ok := w.value("mask"); ok {
			in.Mask = 0
			names := &words{left: strings.Split(v, ",")}
			for len(names.left) > 0 {
				in.Mask.Set(names.event())
			}
			if names.err != nil {
				w.fail("read mask: %w", names.err)
			}
		} else if v, ok := w.value("known"); ok {
			for r := range strings.SplitSeq(v, ",") {
				in.Known = append(in.Known, parseRef(r))
			}
		} else if w.take("new") {
			in.NewVersion = true
		} else {
			w.fail("unknown option %q of synced", w.next())
		}
	}
	return in
}

func (w *words) timer() plugin.Timer {
	t := plugin.Timer{Kind: plugin.TimerKind(255)}
	kind := w.next()
	for k := plugin.Retry; k <= plugin.Hold; k++ {
		if k.String() == kind {
			t.Kind = k
		}
	}
	if t.Kind > plugin.Hold {
		w.fail("unknown timer %q", kind)
	}
	for len(w.left) > 0 && w.err == nil {
		if v, ok := w.value("call"); ok {
			w.left = append([]string{v}, w.left...)
			t.ID = w.id()
		} else if v, ok := w.value("seq"); ok {
			w.left = append([]string{v}, w.left...)
			t.Seq = w.number()
		} else {
			t.Inc = w.inc()
		}
	}
	return t
}

// parseInput reads one input.
func parseInput(line string, now time.Time) (plugin.Input, error) {
	w := &words{left: strings.Fields(line)}
	in := w.input(now)
	if w.err == nil && len(w.left) > 0 {
		w.fail("unexpected %q", strings.Join(w.left, " "))
	}
	if w.err != nil {
		return nil, fmt.Errorf("input %q: %w", line, w.err)
	}
	return in, nil
}

func (w *words) input(now time.Time) plugin.Input {
	switch verb := w.next(); verb {
	case "start":
		return plugin.Start{Disabled: w.take("disabled")}
	case "stop":
		return plugin.Stop{}
	case "disable":
		return plugin.Disable{}
	case "enable":
		return plugin.Enable{}
	case "restart":
		return plugin.Restart{}
	case "replace":
		return plugin.Replace{}
	case "reconfigure":
		return plugin.Reconfigure{Restart: w.take("restart")}
	case "launched":
		return plugin.Launched{Inc: w.inc(), InPlace: !w.take("stock")}
	case "launch-failed":
		return plugin.LaunchFailed{Inc: w.inc()}
	case "exited":
		return plugin.Exited{Inc: w.inc()}
	case "connection-lost":
		return plugin.ConnectionLost{Inc: w.inc()}
	case "runtime-up":
		return plugin.RuntimeUp{Session: w.number()}
	case "runtime-down":
		return plugin.RuntimeDown{}
	case "synced":
		return w.synced()
	case "sync-failed":
		return plugin.SyncFailed{Inc: w.inc(), Sync: w.number(), Refused: w.take("refused")}
	case "health-failed":
		return plugin.HealthFailed{Inc: w.inc()}
	case "health-ok":
		return plugin.HealthOK{Inc: w.inc()}
	case "opened":
		if w.take("manual") {
			return plugin.Opened{Manual: true}
		}
		return plugin.Opened{After: w.duration(w.next())}
	case "reset":
		return plugin.Reset{}
	case "call":
		return plugin.Call{Request: w.call(now)}
	case "admitted":
		return plugin.Admitted{ID: w.id()}
	case "refused":
		return plugin.Refused{ID: w.id(), Reason: w.reason(), Manual: w.take("manual")}
	case "returned":
		return plugin.Returned{Inc: w.inc(), ID: w.id(), Outcome: w.outcome()}
	case "cancel":
		return plugin.Cancel{ID: w.id()}
	case "dropped":
		return plugin.Dropped{Ref: parseRef(w.next())}
	case "removed":
		return plugin.Removed{Ref: parseRef(w.next())}
	case "timer":
		return w.timer()
	default:
		w.fail("unknown verb %q", verb)
		return nil
	}
}
