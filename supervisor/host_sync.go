package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// snapshot is what one synchronization tells the plugin.
type snapshot struct {
	pods []*api.PodSandbox
	ctrs []*api.Container
	refs []plugin.Ref
}

// snapshot takes the plugin's view of the store. A pod or container that is being created belongs to it only when the plugin's turn in that creation is over: before that it will come as
// a creation. It runs on the loop, which is also where creations are answered, so no container can be in both or in neither.
func (h *host) snapshot() snapshot {
	var s snapshot
	var creating []store.Ref
	s.pods, s.ctrs, creating = h.sup.store.Snapshot(h.name)
	s.pods = slices.DeleteFunc(s.pods, func(p *api.PodSandbox) bool { return !h.policy().MaySee(p) })
	s.ctrs = slices.DeleteFunc(s.ctrs, func(c *api.Container) bool { return !h.maySee(h.sup.store.Resolve(nil, c)) })
	creating = slices.DeleteFunc(creating, func(r store.Ref) bool { return !h.maySee(r) })
	answered := h.answered
	for _, r := range creating {
		if _, over := answered[r]; !over {
			continue
		}
		if c, ok := h.sup.store.Container(r); ok {
			s.ctrs = append(s.ctrs, c)
		}
	}
	s.refs = make([]plugin.Ref, 0, len(s.pods)+len(s.ctrs))
	inhabited := make(map[string]bool, len(s.ctrs))
	for _, c := range s.ctrs {
		ref := h.sup.store.Resolve(nil, c)
		inhabited[ref.Pod] = true
		s.refs = append(s.refs, plugin.Ref(ref))
	}
	s.pods = slices.DeleteFunc(s.pods, func(p *api.PodSandbox) bool {
		ref := store.Ref{Pod: p.GetId()}
		if _, begins := h.sup.beginning.Load(ref); !begins || inhabited[ref.Pod] {
			return false
		}
		_, over := answered[ref]
		return !over
	})
	for _, p := range s.pods {
		s.refs = append(s.refs, plugin.Ref{Pod: p.GetId()})
	}
	h.forgetTurns() // not before: a creation that ends meanwhile was still one when the store was read
	return s
}

// maySee reports whether the team's ceiling lets the plugin see the container.
func (h *host) maySee(ref store.Ref) bool {
	p, ok := h.sup.store.Pod(ref.Pod)
	return ok && h.policy().MaySee(p)
}

// forgetTurns drops the creations that are over.
func (h *host) forgetTurns() {
	for r := range h.answered {
		_, begins := h.sup.beginning.Load(r)
		if e, ok := h.sup.store.Get(r); begins || ok && e.Phase == store.PhaseCreating {
			continue
		}
		delete(h.answered, r)
	}
}

// synchronize tells the plugin the state in the background.
func (h *host) synchronize(e plugin.Synchronize) {
	listed := h.sup.opts.Computing() // all of it is looked through
	r, snap, rt := h.runs[e.Inc], h.snapshot(), h.sup.runtimeInfo()
	listed()
	spec := r.spec
	if e.Again {
		spec = h.spec
	}
	h.work.Go(func() {
		defer h.sup.telling.begin(r.ended)()
		begin := time.Now()
		mask := api.EventMask(h.mask.Load())
		if e.Configure {
			m, err := h.configure(r, spec, rt)
			if err != nil {
				h.syncFailed(e, err, nil)
				return
			}
			mask = m
		}
		ctx, cancel := context.WithTimeout(context.Background(), h.policy().SynchronizeTimeout())
		defer cancel()
		told := h.sup.opts.Computing() // all of it is encoded
		updates, err := r.inst.Synchronize(ctx, snap.pods, snap.ctrs)
		told()
		if out, ok := errors.AsType[*wire.NotInterestedError](wire.Decode(err)); ok {
			snap.refs = h.leaveOut(out, snap)
			err = nil
		}
		if err != nil {
			h.syncFailed(e, fmt.Errorf("synchronize: %w", err), snap.ctrs)
			return
		}
		h.sup.emit(PluginSynced{
			Plugin: h.name, Team: h.policy().Team, Pods: len(snap.pods), Containers: len(snap.ctrs), Took: time.Since(begin),
		})
		h.box.put(message{
			in:     plugin.Synced{Inc: e.Inc, Sync: e.Sync, Mask: mask, Known: snap.refs},
			sha256: r.inst.Identity().SHA256,
			fn: func() {
				r.spec = spec
				r.mask, r.known, r.updates = mask, snap.refs, updates
				if e.Inc == h.machine.Incarnation() {
					h.inService(r)
				}
			},
		})
	})
}

// down reports whether nothing says that the plugin will be told the state soon.
func (h *host) down() bool {
	switch h.machine.Phase() {
	case plugin.Backoff, plugin.CrashLoop, plugin.Disabled:
		return true
	case plugin.Starting:
		return h.policy().Attaches()
	case plugin.Stopped, plugin.Syncing, plugin.Ready, plugin.Draining:
	}
	return false
}

// explainDown records the work that is missing from containers created while the supervisor was away, for a plugin that does not come up to be told of them.
func (h *host) explainDown() {
	var refs []plugin.Ref
	_, ctrs, _ := h.sup.store.Snapshot(h.name)
	for _, c := range ctrs {
		refs = append(refs, plugin.Ref(h.sup.store.Resolve(nil, c)))
	}
	h.sup.explainUnexplained(h, refs)
}

// leaveOut takes back the selection of what the plugin does not want to hear of, and returns what is left.
func (h *host) leaveOut(out *wire.NotInterestedError, snap snapshot) []plugin.Ref {
	return slices.DeleteFunc(snap.refs, func(r plugin.Ref) bool {
		ref := store.Ref(r)
		switch {
		case slices.Contains(out.Pods, r.Pod):
			ref.Container = ""
		case r.Container != "" && slices.Contains(out.Containers, r.Container):
		default:
			return false
		}
		h.sup.leave(h.name, ref)
		return true
	})
}

// syncFailed takes note of a failure. told are the containers that the plugin heard of, and whose variables it may quote.
func (h *host) syncFailed(e plugin.Synchronize, err error, told []*api.Container) {
	known := newValues(nil)
	for _, c := range told {
		known.learn(c.GetEnv())
	}
	text := known.hide(err.Error())
	h.sup.emit(PluginSyncFailed{Plugin: h.name, Team: h.policy().Team, Err: text})
	_, refused := errors.AsType[refusedError](err)
	refused = refused && e.Again
	h.box.put(message{in: plugin.SyncFailed{Inc: e.Inc, Sync: e.Sync, Refused: refused}, fn: func() {
		h.lastErr, h.told = text, !refused
		if !refused {
			h.failed(nil, failedSynchronize, text)
		}
	}})
}

// failedSynchronize is the reason of a Failure to configure or synchronize the plugin.
const failedSynchronize = "synchronize"

// refusedError is a plugin's own no to a configuration: it has answered, and goes on with what it had.
type refusedError struct{ error }

// configure hands the plugin its configuration and returns the events it subscribes to.
func (h *host) configure(r *running, spec *policy.Plugin, rt RuntimeInfo) (api.EventMask, error) {
	ctx, cancel := context.WithTimeout(context.Background(), h.policy().ConfigureTimeout())
	defer cancel()
	rpl, err := r.inst.Plugin().Configure(ctx, &api.ConfigureRequest{
		Config:              spec.ConfigData(),
		RuntimeName:         rt.Name,
		RuntimeVersion:      rt.Version,
		NRIVersion:          rt.NRIVersion,
		RegistrationTimeout: h.policy().StartTimeout().Milliseconds(),
		RequestTimeout:      h.policy().Timeout(api.Event_CREATE_CONTAINER).Milliseconds(),
	})
	if err != nil {
		err = fmt.Errorf("configure: %w", err)
		if code := status.Code(errors.Unwrap(err)); code == codes.DeadlineExceeded || disconnected(err) {
			return 0, err
		}
		return 0, refusedError{err}
	}
	mask := api.EventMask(rpl.GetEvents())
	if extra := mask &^ api.ValidEvents; extra != 0 {
		return 0, fmt.Errorf("configure: the plugin subscribes to unknown events 0x%x", int32(extra))
	}
	states := h.policy().StatesFailurePolicy()
	if mask == 0 { // NRI's contract: 0 is everything
		mask = api.ValidEvents
		if !states { // nobody asked for this
			mask.Clear(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
		}
	}
	if n := h.policy().Events(); n != 0 {
		mask &= n
	}
	if !states && mask.IsSet(api.Event_VALIDATE_CONTAINER_ADJUSTMENT) {
		return 0, errors.New("configure: the plugin subscribes to ValidateContainerAdjustment, so its manifest must state failurePolicy: write Fail or Ignore")
	}
	return mask, nil
}
