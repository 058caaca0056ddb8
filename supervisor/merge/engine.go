package merge

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/containerd/nri/pkg/api"
)

// ErrClosed is returned for an event that comes after Close.
var ErrClosed = errors.New("merge engine is closed")

// Engine merges. Make one with NewEngine; it is safe for concurrent use.
type Engine struct {
	mu     sync.Mutex
	closed bool
	idle   []*hosted // the one used last is last
}

// NewEngine returns an engine. It builds adaptations when events need them.
func NewEngine() *Engine { return &Engine{} }

// Close lets go of the idle adaptations. Events that are under way finish; later
// ones get ErrClosed. Closing twice is fine.
func (e *Engine) Close() {
	e.mu.Lock()
	idle := e.idle
	e.idle, e.closed = nil, true
	e.mu.Unlock()
	for _, h := range idle {
		h.adaptation.Stop()
	}
}

// CreateContainer calls the members and merges their replies. The request is
// not changed. Errors are those of the package's failure model.
func (e *Engine) CreateContainer(ctx context.Context, members []Member, req *api.CreateContainerRequest, call Call[*api.CreateContainerRequest, *api.CreateContainerResponse], o CreateOptions) (CreateResult, error) {
	if req.GetContainer() == nil {
		return CreateResult{}, errors.New("merge CreateContainer: the request has no container")
	}
	ev, err := e.begin("CreateContainer", members)
	if err != nil {
		return CreateResult{}, err
	}
	ev.created = req.GetContainer().GetId()
	ev.create = func(member int, view *api.CreateContainerRequest) *reply {
		return replyToCreate(call(ctx, member, view))
	}
	if o.Validate != nil {
		ev.validate = func(member int, judged *api.ValidateContainerAdjustmentRequest) (string, bool) {
			return o.Validate(ctx, member, judged)
		}
	}

	ev.tell, ev.accept = o.Dropped, o.Accept

	audited := o.Owners || ev.hasValidators()
	if len(members) < 2 && !ev.hasValidators() {
		ev.alone(func(member int) *reply { return ev.create(member, req) })
		res := CreateResult{Reply: ev.passThrough(), Dropped: ev.dropped, LostUpdates: ev.lost}
		if o.Owners {
			res.Owners = ev.ownersFromReplies()
		}
		return res, nil
	}

	var merged *api.CreateContainerResponse
	err = e.passes(ev, audited, func(h *hosted) (err error) {
		merged, err = h.adaptation.CreateContainer(context.WithoutCancel(ctx), copyCreate(req))
		return err
	})
	if err != nil {
		return CreateResult{}, err
	}
	return CreateResult{
		Reply:       ev.outerCreate(merged.GetAdjust()),
		Dropped:     ev.dropped,
		LostUpdates: ev.lost,
		Owners:      ev.owners,
		Rejected:    ev.rejection,
	}, nil
}

// UpdateContainer calls the members and merges their replies. The request is
// not changed. Errors are those of the package's failure model.
func (e *Engine) UpdateContainer(ctx context.Context, members []Member, req *api.UpdateContainerRequest, call Call[*api.UpdateContainerRequest, *api.UpdateContainerResponse]) (UpdateResult, error) {
	if req.GetContainer() == nil {
		return UpdateResult{}, errors.New("merge UpdateContainer: the request has no container")
	}
	ev, err := e.begin("UpdateContainer", members)
	if err != nil {
		return UpdateResult{}, err
	}
	ev.updated, ev.pids = req.GetContainer().GetId(), req.GetLinuxResources().GetPids()
	ev.update = func(member int, view *api.UpdateContainerRequest) *reply {
		return replyToUpdate(call(ctx, member, view))
	}
	if len(members) < 2 {
		ev.alone(func(member int) *reply { return ev.update(member, req) })
	} else {
		err = e.passes(ev, false, func(h *hosted) error {
			pass := copyUpdate(req)
			if pass.GetLinuxResources() != nil {
				// The adaptation claims the requested pids for whoever
				// updates anything, so a second plugin would always lose.
				pass.LinuxResources.Pids = nil
			}
			_, err := h.adaptation.UpdateContainer(context.WithoutCancel(ctx), pass)
			return err
		})
	}
	if err != nil {
		return UpdateResult{}, err
	}
	return UpdateResult{
		Reply:       &api.UpdateContainerResponse{Update: ev.mergedUpdates(), Evict: ev.evictions()},
		Dropped:     ev.dropped,
		LostUpdates: ev.lost,
		Owners:      ev.ownersFromReplies(),
	}, nil
}

// StopContainer calls the members and merges their replies. The request is
// not changed. Errors are those of the package's failure model.
func (e *Engine) StopContainer(ctx context.Context, members []Member, req *api.StopContainerRequest, call Call[*api.StopContainerRequest, *api.StopContainerResponse]) (StopResult, error) {
	if req.GetContainer() == nil {
		return StopResult{}, errors.New("merge StopContainer: the request has no container")
	}
	ev, err := e.begin("StopContainer", members)
	if err != nil {
		return StopResult{}, err
	}
	ev.stop = func(member int, view *api.StopContainerRequest) *reply {
		return replyToStop(call(ctx, member, view))
	}
	if len(members) < 2 {
		ev.alone(func(member int) *reply { return ev.stop(member, req) })
	} else {
		err = e.passes(ev, false, func(h *hosted) error {
			_, err := h.adaptation.StopContainer(context.WithoutCancel(ctx), req)
			return err
		})
	}
	if err != nil {
		return StopResult{}, err
	}
	return StopResult{
		Reply:       &api.StopContainerResponse{Update: ev.mergedUpdates()},
		Dropped:     ev.dropped,
		LostUpdates: ev.lost,
		Owners:      ev.ownersFromReplies(),
	}, nil
}

// begin checks what the caller may get wrong and lays out the event.
func (e *Engine) begin(what string, members []Member) (*event, error) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	ev, err := newEvent(members)
	if err != nil {
		return nil, fmt.Errorf("merge %s: %w", what, err)
	}
	return ev, nil
}

// passes merges until nobody loses any more. Each failed pass drops one
// member, so there is at most one pass more than members.
func (e *Engine) passes(ev *event, audited bool, pass func(*hosted) error) error {
	h, err := e.take(shape{members: len(ev.members), audited: audited})
	if err != nil {
		return err
	}
	defer e.give(h)
	h.event = ev
	defer func() { h.event = nil }()

	for {
		ev.last = -1
		err := pass(h)
		if err == nil {
			return nil
		}
		if ev.last < 0 || !ev.drop(ev.last, err) {
			return fmt.Errorf("merge: %w", err)
		}
	}
}
