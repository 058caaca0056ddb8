package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// exitsKept is how many exit reports a plugin keeps for `plugin show`.
const exitsKept = 10

// reasonStartFailed is how an incarnation ends that never came up.
const reasonStartFailed = "start_failed"

// ExitRecord is the end of one incarnation.
type ExitRecord struct {
	PID      int       `json:"pid"`
	Reason   string    `json:"reason"`
	Detail   string    `json:"detail"`
	Output   []string  `json:"output,omitempty"`
	At       time.Time `json:"at"`
	InFlight string    `json:"inFlight,omitempty"`
	// Withheld is how many lines of output there are that Output does not have; 0 where it has all.
	Withheld int `json:"withheldOutput,omitempty"`
}

// withLastWords is the detail, and what the process said last if that may be why it ended: of a crash the line that begins it.
func (r *ExitRecord) withLastWords() string {
	if len(r.Output) == 0 || r.Reason != "exit_code" && r.Reason != "signal" {
		return r.Detail
	}
	last := r.Output[len(r.Output)-1]
	for _, line := range r.Output {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			last = line
		}
	}
	return r.Detail + ": " + oneLine(last)
}

// withoutOutput is the detail without what the process wrote: why a start failed may quote that.
func (r *ExitRecord) withoutOutput() string {
	if r.Reason != reasonStartFailed || len(r.Output) == 0 {
		return r.Detail
	}
	text, _, _ := strings.Cut(r.Detail, `"`)
	return strings.TrimSuffix(strings.TrimRight(text, " :"), ", last output")
}

// launch starts an incarnation in the background.
func (h *host) launch(inc plugin.Incarnation) {
	ctx, cancel := h.startContext()
	r := &running{inc: inc, spec: h.spec, cancel: cancel, jobs: make(chan func(), 1), launched: time.Now(), ended: make(chan struct{})}
	h.runs[inc] = r
	if inc > 1 {
		h.restarts++
	}
	h.work.Go(func() {
		defer cancel()
		inst, err := h.sup.launcher.Launch(ctx, r.spec, Hooks{
			Update: h.sup.updates.request(h),
			Output: func(l OutputLine) { h.output(r, l) },
			OutOfMemory: func(killed int) {
				h.met.oomKilled(killed)
				h.sup.emit(ChildrenOutOfMemory{Plugin: h.name, Team: h.policy().Team, PID: int(r.pid.Load()), Killed: killed})
			},
			Refused: func(x Refused) {
				h.sup.emit(AttachRefused{Plugin: h.name, Team: h.policy().Team, Refused: x})
			},
			Waiting: func() { h.post(plugin.Replace{}) },
			Over:    h.gone,
		})
		if err != nil {
			h.box.put(message{in: plugin.LaunchFailed{Inc: inc, Lack: lacking(err, &r.spec.Spec.Resources.Limits)}, fn: func() { h.launchFailed(r, err) }})
			return
		}
		h.box.put(message{in: plugin.Launched{Inc: inc, InPlace: inst.InPlace()}, inst: inst})
		select {
		case <-inst.Done():
		case <-inst.Disconnected():
			h.post(plugin.ConnectionLost{Inc: inc})
			<-inst.Done()
		}
		h.box.put(message{in: plugin.Exited{Inc: inc}, fn: func() { h.exited(r) }})
	})
}

// run is the incarnation in service, or on the way there; nil when there is none.
func (h *host) run() *running { return h.runs[h.machine.Incarnation()] }

func (h *host) pidOf(inc plugin.Incarnation) int {
	if r := h.runs[inc]; r != nil {
		return int(r.pid.Load())
	}
	return 0
}

// inService takes over what a synchronized incarnation told.
func (h *host) inService(r *running) {
	id := r.inst.Identity()
	h.sha256 = id.SHA256
	h.met.info(id)
	h.mask.Store(int32(r.mask))
	h.configured.Store(true)
	h.met.subscribed(r.mask)
	h.sup.explainUnexplained(h, r.known)
	h.sup.updates.accept(h, eventSynchronize, r.updates)
	r.known, r.updates = nil, nil
}

// replaceFailed: what is in service stays, and what follows it is started like it. If it is confined otherwise than its manifest says now it does not stay: it is ended, and the new one
// is tried again after it.
func (h *host) replaceFailed(e plugin.ReplaceFailed) {
	if r := h.run(); r != nil {
		if !policy.SameConfinement(r.spec, h.spec) {
			h.post(plugin.Restart{})
			return
		}
		h.spec = r.spec
	}
	h.stuck.Store(true)
	h.beside.Store(true)
	why := "the process in service stays, because the new one did not come into service: " + e.Why + suffix(h.lastErr)
	h.lastErr = why
	h.publish()
	h.endUpdate(errors.New(oneLine(why)))
}

// startContext bounds a launch. A plugin that attaches comes when it comes, and nobody's first dial waits for it.
func (h *host) startContext() (context.Context, context.CancelFunc) {
	if h.policy().Attaches() {
		h.settle()
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), h.policy().StartTimeout())
}

// attach takes the launched process, before the machine hears of it.
func (h *host) attach(inc plugin.Incarnation, inst Incarnation) {
	r := h.runs[inc]
	r.inst = inst
	r.pid.Store(int64(inst.PID()))
	id := inst.Identity()
	h.met.started("success")
	h.sup.emit(PluginStarted{
		Plugin: h.name, Team: h.policy().Team, PID: inst.PID(), Identity: id, Took: time.Since(r.launched),
	})
	if id.Name != "" || id.Index != "" {
		h.sup.emit(RegisteredOtherwise{Plugin: h.name, Team: h.policy().Team, Name: id.Name, Index: id.Index})
	}
	if inc == h.machine.Incarnation() {
		h.met.info(id)
	}
	h.work.Go(func() { h.serve(r) })
	if inst.InPlace() {
		h.work.Go(func() { h.watchHealth(r) })
	}
	if r.stop {
		h.stopProcess(inc)
	}
	h.publish()
}

func (h *host) launchFailed(r *running, err error) {
	close(r.ended)
	if r.stop { // it was given up because we end it, and did nothing wrong
		h.sup.emit(PluginStartGivenUp{Plugin: h.name, Team: h.policy().Team, Err: err.Error()})
		delete(h.runs, r.inc)
		h.publish()
		return
	}
	h.met.started("failure")
	h.lastErr = err.Error()
	rec := ExitRecord{Reason: reasonStartFailed, Detail: err.Error(), At: time.Now()}
	if sf, ok := errors.AsType[StartFailure](err); ok {
		rec.Output = sf.StartExit().Output
	}
	h.remember(rec)
	if r.inc == h.machine.Incarnation() {
		h.failed(nil, rec.Reason, rec.withoutOutput())
	}
	h.sup.emit(PluginStartFailed{Plugin: h.name, Team: h.policy().Team, Err: err.Error()})
	delete(h.runs, r.inc)
	h.publish()
}

func (h *host) exited(r *running) {
	close(r.ended)
	x := r.inst.Exit()
	rec := ExitRecord{PID: r.inst.PID(), Reason: x.Reason, Detail: x.Detail, Output: x.Output, At: x.At}
	var during *call
	inService := r.inc == h.machine.Incarnation()
	if inService {
		during = h.flying()
	}
	rec.InFlight = during.String()
	h.remember(rec)
	h.met.exited(x.Reason)
	if x.Reason != "stopped" && !h.told && inService {
		h.failed(during, x.Reason, x.Detail)
	}
	if x.Reason != "stopped" && !h.told {
		h.lastErr = rec.withLastWords()
	}
	h.told = false
	h.sup.emit(PluginExited{Plugin: h.name, Team: h.policy().Team, PID: r.inst.PID(), Exit: x})
	delete(h.runs, r.inc)
	h.publish()
}

// String says which event the call is, of what, and by which ids the runtime knows that; empty for nil.
func (c *call) String() string {
	if c == nil {
		return ""
	}
	out, ids := c.req.Event.PrettyName()+" of "+c.name.namespace+"/"+c.name.pod, "pod "+c.req.Ref.Pod
	if c.req.Ref.Container != "" {
		out += "/" + c.name.container
		ids = "container " + c.req.Ref.Container + ", " + ids
	}
	return out + " (" + ids + ")"
}

func (h *host) remember(r ExitRecord) {
	h.exits = append(slices.Clone(h.exits), r)
	if len(h.exits) > exitsKept {
		h.exits = h.exits[1:]
	}
}

// stopProcess ends the incarnation in order, or its launch.
func (h *host) stopProcess(inc plugin.Incarnation) {
	r := h.runs[inc]
	if r == nil {
		return
	}
	r.stop = true
	if r.inst == nil {
		r.cancel()
		return
	}
	inst := r.inst
	h.work.Go(func() { inst.Stop(h.sup.stopContext()) })
}

func (h *host) killProcess(inc plugin.Incarnation, why string) {
	r := h.runs[inc]
	if r == nil {
		return
	}
	if r.inst == nil {
		r.cancel()
		return
	}
	inst := r.inst
	h.work.Go(func() { inst.Kill(why) })
}

// watchHealth asks an SDK plugin how it is until its incarnation ends.
func (h *host) watchHealth(r *running) {
	spec := h.policy().Spec.Health
	tick := time.NewTicker(spec.Period.Std())
	defer tick.Stop()
	failed := 0
	for {
		select {
		case <-r.ended:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), spec.Timeout.Std())
		err := r.inst.Health(ctx)
		cancel()
		if err == nil {
			failed = 0
			h.post(plugin.HealthOK{Inc: r.inc})
			continue
		}
		failed++
		if failed >= spec.FailureThreshold {
			h.box.put(message{in: plugin.HealthFailed{Inc: r.inc}, fn: func() {
				h.lastErr, h.told = "health: "+err.Error(), true
				h.failed(nil, breaker.CauseHealth.String(), err.Error())
			}})
			failed = 0
		}
	}
}

func (h *host) output(r *running, l OutputLine) {
	pid := l.PID
	if pid == 0 {
		pid = int(r.pid.Load())
	}
	h.met.outputDropped(l.Dropped)
	h.sup.emit(Output{Plugin: h.name, Team: h.policy().Team, PID: pid, Line: l})
}
