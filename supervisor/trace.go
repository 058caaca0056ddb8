package supervisor

import (
	"context"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// Tracer follows the events of the runtime through the plugins. Its methods are called on the way of an event, on many goroutines: they must be safe for concurrent use and must not block.
type Tracer interface {
	// Event says what the request is about whose context this is. Nil: this one is not traced.
	Event(ctx context.Context, e TracedEvent) EventTrace
}

// TracedEvent is what a trace tells of an event.
type TracedEvent struct {
	// Event is NRI's name of it.
	Event string
	// Namespace, Pod and Container are names; Container is empty at events of pods.
	Namespace, Pod, Container string
}

// EventTrace is the trace of one event.
type EventTrace interface {
	// Call begins a plugin's part in the event. What it returns is called once, when that is over, and for a notification that may be after the event.
	Call(plugin, team string) (end func(TracedResult))
}

// TracedResult is what came of a plugin's part.
type TracedResult struct {
	// Outcome is that of the call, such as "success". Empty: the plugin was not called.
	Outcome string
	// Reason is why the plugin's work is missing, such as "timeout" or "breaker_open". Empty: it is not.
	Reason string
}

// trace begins the trace of the visit, if it has one.
func (v *visit) trace(ctx context.Context) {
	if t := v.sup.opts.Tracer; t != nil {
		v.traced = t.Event(ctx, TracedEvent{Event: v.event.PrettyName(), Namespace: v.name.namespace, Pod: v.name.pod, Container: v.name.container})
	}
}

// begin begins the plugin's part in the trace; nil: there is none.
func (v *visit) begin(h *host) (end func(TracedResult)) {
	if v.traced == nil {
		return nil
	}
	return v.traced.Call(h.name, h.policy().Team)
}

// over ends a part. A nil end is none.
func over(end func(TracedResult), r plugin.Result) {
	if end == nil {
		return
	}
	out := TracedResult{Reason: reasonOf(r)}
	if r.Delivered {
		out.Outcome = r.Outcome.String()
	}
	end(out)
}
