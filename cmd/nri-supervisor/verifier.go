package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

const (
	// callPatience is how many timeouts a call may take before the plugin is given up as hung.
	callPatience = 20
	// leakSlack is how many descriptors or threads more a plugin may have after many events than after the first pass: pools and garbage collectors grow a little.
	leakSlack = 8
	// quitLimit is within which a plugin has to end when it is asked to (isolation, StopGrace.Shutdown).
	quitLimit = 2 * time.Second
)

// verifier tries one plugin.
type verifier struct {
	spec    isolation.Spec
	config  string
	timeout time.Duration
	repeat  int
	events  []namedEvent

	// lacks is what the plugin runs without, though the service would have it.
	lacks string

	inst    *isolation.Instance
	mask    api.EventMask
	slowest time.Duration
	slowIn  string
	slow    []string // calls that were late
	hung    bool
	refused bool // Configure gave an error
}

// verify carries out the checks in order. What cannot be checked because of an earlier one is skipped.
func (v *verifier) verify(ctx context.Context) []finding {
	names := []string{"handshake", "configure", "synchronize", "events", "idempotence", "timeouts", "leaks", "shutdown"}
	var out []finding
	first, inst := v.start(ctx)
	out = append(out, first)
	if inst != nil {
		v.inst = inst
		defer inst.Kill(isolation.ReasonStopped)
		for _, check := range []func(context.Context) finding{v.configure, v.synchronize, v.replay, v.idempotent, v.timeouts, v.leaks} {
			f := check(ctx)
			out = append(out, f)
			if f.Verdict == verdictFail && (f.Check == "configure" || v.hung || !v.alive()) {
				break
			}
		}
		if v.hung || !v.alive() {
			for _, line := range inst.Exit().LastOutput {
				out[len(out)-1].problem("it wrote: %s", line)
			}
		} else {
			out = append(out, v.shutdown(ctx))
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(out, func(f finding) bool { return f.Check == n }) {
			out = append(out, finding{Check: n, Verdict: verdictSkip, Detail: "not reached"})
		}
	}
	return out
}

func (v *verifier) alive() bool {
	select {
	case <-v.inst.Done():
		return false
	case <-v.inst.ConnClosed():
		return false
	default:
		return true
	}
}

// bounded makes a call and gives up after a while. late says that it took longer than it may.
func (v *verifier) bounded(ctx context.Context, what string, limit time.Duration, call func(context.Context) (proto.Message, error)) (proto.Message, error) {
	type answer struct {
		reply proto.Message
		err   error
	}
	done := make(chan answer, 1)
	begin := time.Now()
	go func() { // ends with the reply or with the connection, which Kill closes
		reply, err := call(isolation.WithDeadline(ctx, begin.Add(limit)))
		done <- answer{reply, err}
	}()
	patience := time.NewTimer(callPatience * limit)
	defer patience.Stop()
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		v.hung = true
		a.err = fmt.Errorf("no answer in %s", callPatience*limit)
	}
	if errors.Is(a.err, ttrpc.ErrClosed) { // the call is told first; what follows depends on whether the process is there
		select {
		case <-v.inst.ConnClosed():
		case <-patience.C:
		}
	}
	took := time.Since(begin)
	if limit == v.timeout && took > v.slowest { // of the events
		v.slowest, v.slowIn = took, what
	}
	if took > limit {
		v.slow = append(v.slow, fmt.Sprintf("%s took %s", what, took.Round(time.Millisecond)))
	}
	return a.reply, a.err
}

func (v *verifier) configure(ctx context.Context) finding {
	f := finding{Check: "configure", Verdict: verdictPass}
	config := v.config
	if config == "" && v.spec.Protocol == isolation.GoPlugin {
		config = "{}"
	}
	reply, err := v.bounded(ctx, "Configure", 5*time.Second, func(ctx context.Context) (proto.Message, error) {
		return v.inst.Configure(ctx, &api.ConfigureRequest{
			Config: config, RuntimeName: "nri-supervisor verify", RuntimeVersion: version, RequestTimeout: v.timeout.Milliseconds(), RegistrationTimeout: startLimit.Milliseconds(),
		})
	})
	if err != nil {
		v.refused = true
		f.problem("%v", err)
		return f
	}
	rpl, _ := reply.(*api.ConfigureResponse)
	v.mask = api.EventMask(rpl.GetEvents())
	if extra := v.mask &^ api.ValidEvents; extra != 0 {
		f.problem("it subscribes to unknown events 0x%x", int32(extra))
		return f
	}
	if v.mask == 0 {
		v.mask = api.ValidEvents
	}
	f.Detail = "subscribes to " + v.mask.PrettyString()
	return f
}

func (v *verifier) synchronize(ctx context.Context) finding {
	f := finding{Check: "synchronize", Verdict: verdictPass}
	var pods []*api.PodSandbox
	var ctrs []*api.Container
	for _, e := range v.events {
		if e.Name == "Synchronize" {
			pods, ctrs = append(pods, e.Pods...), append(ctrs, e.Containers...)
		}
	}
	_, err := v.bounded(ctx, "Synchronize", 30*time.Second, func(ctx context.Context) (proto.Message, error) {
		_, err := v.inst.Synchronize(ctx, pods, ctrs)
		return nil, err
	})
	if err != nil && !notInterested(err) {
		f.problem("%v", err)
	}
	f.Detail = fmt.Sprintf("%d pods, %d containers", len(pods), len(ctrs))
	return f
}

func notInterested(err error) bool {
	_, ok := errors.AsType[*wire.NotInterestedError](wire.Decode(err))
	return ok || status.Code(err) == codes.Unimplemented
}

// deliver gives the plugin one event. A rejection or an opt-out is an answer.
func (v *verifier) deliver(ctx context.Context, e namedEvent) (reply proto.Message, answered string, err error) {
	p := v.inst.Plugin()
	reply, err = v.bounded(ctx, e.file, v.timeout, func(ctx context.Context) (proto.Message, error) { return invoke(ctx, p, e) })
	if err == nil {
		return reply, "", nil
	}
	if no, ok := errors.AsType[*wire.RejectError](wire.Decode(err)); ok {
		return nil, "rejects: " + no.Reason, nil
	}
	if notInterested(err) {
		return nil, "not interested", nil
	}
	return nil, "", err
}

// invoke makes the call of an event; nil for one that has none.
func invoke(ctx context.Context, p api.PluginService, e namedEvent) (proto.Message, error) {
	pod, ctr := e.Pod, e.Container
	switch e.Name {
	case "RunPodSandbox":
		return p.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: pod})
	case "UpdatePodSandbox":
		return p.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{Pod: pod, OverheadLinuxResources: e.Overhead, LinuxResources: e.Resources})
	case "PostUpdatePodSandbox":
		return p.PostUpdatePodSandbox(ctx, &api.PostUpdatePodSandboxRequest{Pod: pod})
	case "StopPodSandbox":
		return p.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: pod})
	case "RemovePodSandbox":
		return p.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: pod})
	case "CreateContainer":
		return p.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: ctr})
	case "PostCreateContainer":
		return p.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: pod, Container: ctr})
	case "StartContainer":
		return p.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: ctr})
	case "PostStartContainer":
		return p.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: pod, Container: ctr})
	case "UpdateContainer":
		return p.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: pod, Container: ctr, LinuxResources: e.Resources})
	case "PostUpdateContainer":
		return p.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Pod: pod, Container: ctr})
	case "StopContainer":
		return p.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: ctr})
	case "RemoveContainer":
		return p.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: ctr})
	default:
		return nil, fmt.Errorf("verify does not give the event %s", e.Name)
	}
}

// wanted are the events that the plugin subscribed to.
func (v *verifier) wanted() []namedEvent {
	var out []namedEvent
	for _, e := range v.events {
		if n, ok := recording.Known(e.Name); ok && v.mask.IsSet(n) {
			out = append(out, e)
		}
	}
	return out
}

func (v *verifier) replay(ctx context.Context) finding {
	f := finding{Check: "events", Verdict: verdictPass}
	wanted, changes := v.wanted(), 0
	for _, e := range wanted {
		reply, _, err := v.deliver(ctx, e)
		switch r := reply.(type) {
		case *api.CreateContainerResponse:
			if err == nil {
				err = supervisor.CheckReply(r)
			}
			if r.GetAdjust() != nil || len(r.GetUpdate()) > 0 {
				changes++
			}
		case *api.UpdateContainerResponse:
			if len(r.GetUpdate()) > 0 {
				changes++
			}
		}
		if err != nil {
			f.problem("%s: %v", e.file, err)
		}
		if v.hung || !v.alive() {
			f.problem("%s: the plugin is gone, or hangs", e.file)
			return f
		}
	}
	f.Detail = fmt.Sprintf("%d of %d given, %d answered with a change", len(wanted), len(v.events), changes)
	if len(wanted) == 0 {
		f.Verdict, f.Detail = verdictSkip, "it subscribes to none of them"
	}
	return f
}

// idempotent asks twice: a creation can be asked again, after a failure elsewhere or by a retry, and must then be answered alike.
func (v *verifier) idempotent(ctx context.Context) finding {
	f := finding{Check: "idempotence", Verdict: verdictPass}
	n := 0
	for _, e := range v.wanted() {
		if e.Name != "CreateContainer" && e.Name != "UpdateContainer" {
			continue
		}
		n++
		one, say1, err1 := v.deliver(ctx, e)
		two, say2, err2 := v.deliver(ctx, e)
		same := say1 == say2 && (err1 == nil) == (err2 == nil)
		if same && one != nil && two != nil {
			same = proto.Equal(one, two)
		}
		if !same {
			f.problem("%s: asked twice, it answers differently", e.file)
		}
		if v.hung || !v.alive() {
			f.problem("%s: the plugin is gone, or hangs", e.file)
			return f
		}
	}
	f.Detail = fmt.Sprintf("%d asked twice", n)
	if n == 0 {
		f.Verdict, f.Detail = verdictSkip, "no creation or update that it subscribes to"
	}
	return f
}

func (v *verifier) timeouts(context.Context) finding {
	f := finding{Check: "timeouts", Verdict: verdictPass, Detail: fmt.Sprintf("the limit is %s", v.timeout)}
	if v.slowIn != "" {
		f.Detail = fmt.Sprintf("the slowest is %s with %s; the limit is %s", v.slowIn, v.slowest.Round(time.Microsecond), v.timeout)
	}
	for _, s := range v.slow {
		f.problem("%s, longer than its timeout", s)
	}
	return f
}

// leaks gives the events many times and compares what the process holds.
func (v *verifier) leaks(ctx context.Context) finding {
	f := finding{Check: "leaks", Verdict: verdictPass}
	if v.repeat == 0 || len(v.wanted()) == 0 {
		f.Verdict, f.Detail = verdictSkip, "nothing to repeat"
		return f
	}
	before := held(v.inst.PID())
	for range v.repeat {
		for _, e := range v.wanted() {
			if _, _, err := v.deliver(ctx, e); err != nil && (v.hung || !v.alive()) {
				f.problem("%s, given again: the plugin is gone, or hangs", e.file)
				return f
			}
		}
	}
	after := held(v.inst.PID())
	f.Detail = fmt.Sprintf("after %d passes: descriptors %d to %d, threads %d to %d, children %d to %d, memory %d to %d KiB", v.repeat, before.fds, after.fds,
		before.threads, after.threads, len(before.children), len(after.children), before.rss, after.rss)
	if after.fds > before.fds+leakSlack {
		f.problem("it has %d descriptors more", after.fds-before.fds)
	}
	if after.threads > before.threads+leakSlack {
		f.problem("it has %d threads more", after.threads-before.threads)
	}
	if len(after.children) > len(before.children)+leakSlack {
		f.problem("it has %d children more", len(after.children)-len(before.children))
	}
	return f
}

func (v *verifier) shutdown(ctx context.Context) finding {
	f := finding{Check: "shutdown", Verdict: verdictPass}
	children := held(v.inst.PID()).children
	begin := time.Now()
	v.inst.Stop(ctx)
	took, exit := time.Since(begin), v.inst.Exit()
	f.Detail = exit.String()
	switch {
	case exit.Alive:
		f.problem("it cannot be ended")
	case exit.Signal != 0:
		f.problem("it did not end when it was asked to, but by signal %q after %s", exit.Signal.String(), took.Round(time.Millisecond))
	case exit.Code != 0 && !v.refused: // NRI's stub ends by itself, with an error, once it has refused its configuration
		f.problem("it ended with exit code %d", exit.Code)
	case took > quitLimit:
		f.problem("it took %s to end; it has %s", took.Round(time.Millisecond), quitLimit)
	}
	if exit.Left > 0 {
		f.problem("it left %d processes behind in its cgroup, which are killed with it", exit.Left)
	}
	for pid, started := range children {
		if startedAt(pid) == started {
			f.problem("it left process %d behind", pid)
		}
	}
	return f
}
