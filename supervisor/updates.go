package supervisor

import (
	"context"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

const (
	// updateEvery is the shortest time between two unsolicited requests to the runtime, which takes its node-wide lock for each.
	updateEvery = 100 * time.Millisecond
	// updateBatch is the most containers that one request names; updateBacklog the most that wait. A node has a few hundred containers.
	updateBatch, updateBacklog = 100, 4096
	// updateLimit is how long the runtime may take for one request. NRI's stub has no limit of its own.
	updateLimit = 5 * time.Second
)

// updater sends the unsolicited updates of hosted plugins to the runtime: never inside an event (containerd would deadlock until its timeout), one request at a time, the
// latest update of a container only.
type updater struct {
	sup  *Supervisor
	box  *mailbox[updateMessage]
	quit chan struct{}
}

// updateMessage is one of: updates of a plugin, or a new session.
type updateMessage struct {
	h       *host
	updates []*api.ContainerUpdate
	session *session
}

type pendingUpdate struct {
	h *host
	u *api.ContainerUpdate
}

func newUpdater(s *Supervisor) *updater {
	return &updater{sup: s, box: newMailbox[updateMessage](), quit: make(chan struct{})}
}

// request returns what an incarnation of the plugin calls for UpdateContainers. It answers at once: "accepted" for what will be sent, the rest is returned as failed.
func (u *updater) request(h *host) func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return func(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		return u.accept(h, updates), nil
	}
}

// accept queues the updates that the plugin may make and returns the others.
func (u *updater) accept(h *host, updates []*api.ContainerUpdate) (failed []*api.ContainerUpdate) {
	var ok []*api.ContainerUpdate
	for _, up := range updates {
		why := ""
		if err := checkUpdate(up); err != nil {
			why = err.Error()
		} else if f := h.policy.ForbiddenUpdate(up); len(f) > 0 {
			why = forbidden(f).detail
		} else {
			why = h.updateDenied(up.GetContainerId(), store.Ref{}, false)
		}
		if why != "" {
			h.met.updates("unsolicited", "denied")
			u.sup.emit(UpdateDenied{Plugin: h.policy.Name, Team: h.policy.Team, ContainerID: up.GetContainerId(), Why: why})
			failed = append(failed, up)
			continue
		}
		ok = append(ok, up)
	}
	if len(ok) > 0 {
		u.box.put(updateMessage{h: h, updates: ok})
	}
	return failed
}

// connected says which session requests go to from now on.
func (u *updater) connected(se *session) { u.box.put(updateMessage{session: se}) }

func (u *updater) stop() { close(u.quit) }

// run sends until stop.
func (u *updater) run() {
	pending := map[string]pendingUpdate{}
	var order []string
	var se *session
	var buf []updateMessage
	var due <-chan time.Time
	var sent time.Time
	for {
		select {
		case <-u.quit:
			return
		case <-u.box.wake:
			batch := u.box.take(buf)
			for _, m := range batch {
				if m.session != nil {
					se = m.session
				}
				order = u.queue(pending, order, m)
			}
			buf = batch
			if due == nil && len(order) > 0 && se != nil {
				due = time.After(updateEvery - time.Since(sent))
			}
		case <-due:
			due = nil
			n := min(len(order), updateBatch)
			u.send(se, pending, order[:n])
			sent = time.Now()
			order = order[n:]
			if len(order) > 0 {
				due = time.After(updateEvery)
			}
		}
	}
}

func (u *updater) queue(pending map[string]pendingUpdate, order []string, m updateMessage) []string {
	for _, up := range m.updates {
		id := up.GetContainerId()
		if _, known := pending[id]; !known {
			if len(order) >= updateBacklog {
				m.h.met.updates("unsolicited", "dropped")
				u.sup.emit(UpdateFailed{Plugin: m.h.policy.Name, Team: m.h.policy.Team, ContainerID: id, Err: "too many updates wait"})
				continue
			}
			order = append(order, id)
		}
		pending[id] = pendingUpdate{h: m.h, u: up}
	}
	return order
}

// send makes one request and returns when the runtime answered, the session ended, or the limit is over.
func (u *updater) send(se *session, pending map[string]pendingUpdate, ids []string) {
	updates := make([]*api.ContainerUpdate, 0, len(ids))
	owner := make(map[string]*host, len(ids))
	for _, id := range ids {
		p := pending[id]
		delete(pending, id)
		updates = append(updates, p.u)
		owner[id] = p.h
	}
	type answer struct {
		failed []*api.ContainerUpdate
		err    error
	}
	done := make(chan answer, 1)
	go func() { // ends with the answer or with the connection
		failed, err := se.stub.UpdateContainers(updates)
		done <- answer{failed, err}
	}()
	limit := time.NewTimer(updateLimit)
	defer limit.Stop()
	var a answer
	select {
	case a = <-done:
	case <-se.ctx.Done():
		a.err = errLost
	case <-limit.C:
		a.err = context.DeadlineExceeded
	}
	bad := map[string]bool{}
	for _, f := range a.failed {
		bad[f.GetContainerId()] = true
	}
	for _, up := range updates {
		id := up.GetContainerId()
		h := owner[id]
		switch {
		case a.err != nil:
			h.met.updates("unsolicited", "failed")
			u.sup.emit(UpdateFailed{Plugin: h.policy.Name, Team: h.policy.Team, ContainerID: id, Err: oneLine(a.err.Error())})
		case bad[id]:
			h.met.updates("unsolicited", "failed")
			u.sup.emit(UpdateFailed{Plugin: h.policy.Name, Team: h.policy.Team, ContainerID: id, Err: "the runtime refused it"})
		default:
			h.met.updates("unsolicited", "sent")
		}
	}
}
