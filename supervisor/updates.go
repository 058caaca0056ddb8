package supervisor

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

const (
	// updateEvery is the shortest time between two unsolicited requests to the runtime, which takes its node-wide lock for each.
	updateEvery = 100 * time.Millisecond
	// updateSize is the most bytes of one update: a typical one has a hundred, and a request of a hundred must fit into one message.
	updateSize = replyLimit / 2
	// updateBatch is the most containers that one request names; updateBacklog the most updates of one plugin that wait. A node has a few hundred containers.
	updateBatch, updateBacklog = 100, 1024
	// updateLimit is how long the runtime may take for one request. NRI's stub has no limit of its own.
	updateLimit = 5 * time.Second
)

// updater sends the unsolicited updates of hosted plugins to the runtime: never inside an event (containerd would deadlock until its timeout), one request at a time, the
// updates of one plugin for one container joined into one.
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

// updateKey is what updates are joined by: different plugins' updates of one container stay apart, as if each were attached to the runtime.
type updateKey struct {
	h         *host
	container string
}

// waitingUpdate is what one plugin wants of one container, and its encoded size in bytes.
type waitingUpdate struct {
	update *api.ContainerUpdate
	size   int
}

// backlog is what one plugin's updates that wait for the runtime amount to. Safe for concurrent use; the zero value is ready for use.
type backlog struct{ updates, bytes atomic.Int64 }

func (b *backlog) add(updates, bytes int) {
	b.updates.Add(int64(updates))
	b.bytes.Add(int64(bytes))
}

func (b *backlog) full() bool {
	return b.updates.Load() >= updateBacklog || b.bytes.Load() >= replyLimit
}

func newUpdater(s *Supervisor) *updater {
	return &updater{sup: s, box: newMailbox[updateMessage](), quit: make(chan struct{})}
}

// request returns what an incarnation of the plugin calls for UpdateContainers. It answers at once: "accepted" for what will be sent, the rest is returned as failed.
func (u *updater) request(h *host) func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return func(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		return u.accept(h, eventUnsolicited, updates), nil
	}
}

// accept queues the updates that the plugin may make and returns the others. event is what they came with, for the record.
func (u *updater) accept(h *host, event string, updates []*api.ContainerUpdate) (failed []*api.ContainerUpdate) {
	var ok []*api.ContainerUpdate
	if n := len(updates) - updateBacklog; n > 0 { // no node has so many containers, and looking at each costs time
		h.met.manyUpdates("unsolicited", "denied", n)
		h.deny(UpdateDenied{NRIEvent: event, Count: n, Why: fmt.Sprintf("more than the %d updates of one request that are looked at", updateBacklog)})
		failed, updates = updates[updateBacklog:], updates[:updateBacklog]
	}
	if n := h.pace.take(len(updates), time.Now()); n < len(updates) {
		h.met.manyUpdates("unsolicited", "denied", len(updates)-n)
		h.deny(UpdateDenied{NRIEvent: event, Count: len(updates) - n, Why: fmt.Sprintf("more than %d updates a second", updatesPerSecond)})
		failed, updates = append(failed, updates[n:]...), updates[:n]
	}
	for _, up := range updates {
		if why := u.refusal(h, up); why != "" {
			h.met.updates("unsolicited", "denied")
			h.deny(UpdateDenied{NRIEvent: event, ContainerID: up.GetContainerId(), Why: why, Fields: fieldsOf(policy.FieldsOfUpdate(up))})
			failed = append(failed, up)
			continue
		}
		h.backlog.add(1, proto.Size(up))
		ok = append(ok, up)
	}
	if len(ok) > 0 {
		u.box.put(updateMessage{h: h, updates: ok})
	}
	return failed
}

// refusal says why an update is not taken, or nothing.
func (u *updater) refusal(h *host, up *api.ContainerUpdate) string {
	if u.sup.bypassed() {
		return "the supervisor is bypassed"
	}
	if u.sup.plan().byName[h.name] != h {
		return "the plugin is not in the configuration any more"
	}
	if st := h.guard.State(); st == breaker.StateForcedOpen || st == breaker.StateDisabled {
		return "an operator has switched the plugin off (" + st.String() + ")"
	}
	if err := checkUpdate(up); err != nil {
		return oneLine(err.Error())
	}
	if why := h.updateDenied(up.GetContainerId(), store.Ref{}, false); why != "" {
		return why
	}
	e, _ := u.sup.store.Get(u.sup.store.Resolve(nil, &api.Container{Id: up.GetContainerId()}))
	if d := h.policy().Denied(policy.Reply{Updates: []*api.ContainerUpdate{up}, Pod: e.Pod, Container: e.Container}); len(d) > 0 {
		h.met.denied(d)
		return forbidden(d).detail
	}
	if proto.Size(up) > updateSize {
		return "the update is larger than a request to the runtime may be"
	}
	if h.backlog.full() {
		return "too many updates of this plugin wait for the runtime"
	}
	return ""
}

// connected says which session requests go to from now on.
func (u *updater) connected(se *session) { u.box.put(updateMessage{session: se}) }

func (u *updater) stop() { close(u.quit) }

// run sends until stop.
func (u *updater) run() {
	pending := map[updateKey]waitingUpdate{}
	var order []updateKey
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
			var now []updateKey
			now, order = pick(pending, order)
			u.send(se, pending, now)
			sent = time.Now()
			if len(order) > 0 {
				due = time.After(updateEvery)
			}
		}
	}
}

// queue adds the updates of a message; a second one of the same plugin for the same container is joined to the first.
func (u *updater) queue(pending map[updateKey]waitingUpdate, order []updateKey, m updateMessage) []updateKey {
	for _, up := range m.updates {
		k := updateKey{h: m.h, container: up.GetContainerId()}
		n := proto.Size(up)
		old, known := pending[k]
		if !known {
			order = append(order, k)
			pending[k] = waitingUpdate{up, n}
			continue
		}
		joined := join(old.update, up)
		if size := proto.Size(joined); size <= updateSize {
			k.h.backlog.add(-1, size-old.size-n)
			pending[k] = waitingUpdate{joined, size}
			continue
		}
		k.h.backlog.add(-1, -n)
		u.failed(k, "with what waits for the container already it is larger than a request to the runtime may be", fieldsOf(policy.FieldsOfUpdate(up)))
	}
	return order
}

// join lays a later update over an earlier one: what the later one does not set stays.
func join(old, later *api.ContainerUpdate) *api.ContainerUpdate {
	out := proto.CloneOf(old)
	if r := out.GetLinux().GetResources(); r != nil && len(later.GetLinux().GetResources().GetHugepageLimits()) > 0 {
		r.HugepageLimits = nil // a list is replaced, not lengthened
	}
	if r := out.GetLinux().GetResources(); r != nil && len(later.GetLinux().GetResources().GetDevices()) > 0 {
		r.Devices = nil
	}
	proto.Merge(out, later)
	out.IgnoreFailure = later.GetIgnoreFailure()
	return out
}

// pick takes the updates of the next request: the oldest, each container once, as many as fit.
func pick(pending map[updateKey]waitingUpdate, order []updateKey) (now, later []updateKey) {
	size := 0
	taken := map[string]bool{}
	for i, k := range order {
		n := pending[k].size + 16 // the entry's own tag and length
		if len(now) == updateBatch || len(now) > 0 && size+n > replyLimit {
			return now, append(later, order[i:]...)
		}
		if taken[k.container] {
			later = append(later, k)
			continue
		}
		taken[k.container] = true
		size += n
		now = append(now, k)
	}
	return now, later
}

// send makes one request and returns when the runtime answered, the session ended, or the limit is over.
func (u *updater) send(se *session, pending map[updateKey]waitingUpdate, keys []updateKey) {
	updates := make([]*api.ContainerUpdate, 0, len(keys))
	sent := make(map[updateKey][]journal.Field, len(keys))
	for _, k := range keys {
		w := pending[k]
		updates = append(updates, w.update)
		sent[k] = fieldsOf(policy.FieldsOfUpdate(w.update))
		delete(pending, k)
		k.h.backlog.add(-1, -w.size)
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
	for _, k := range keys {
		switch {
		case a.err != nil:
			u.failed(k, oneLine(a.err.Error()), sent[k])
		case bad[k.container]:
			u.failed(k, "the runtime refused it", sent[k])
		default:
			k.h.met.updates("unsolicited", "sent")
			k.h.noteUpdate(k.container, journal.ActionAllowed, "", sent[k])
		}
	}
}

func (u *updater) failed(k updateKey, why string, fields []journal.Field) {
	k.h.met.updates("unsolicited", "failed")
	u.sup.emit(UpdateFailed{Plugin: k.h.name, Team: k.h.policy().Team, ContainerID: k.container, Err: why})
	k.h.noteUpdate(k.container, journal.ActionLost, why, fields)
}
