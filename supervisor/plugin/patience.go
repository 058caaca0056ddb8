package plugin

import (
	"fmt"
	"time"
)

const (
	// HoldLimit is how long calls wait at most for a successor that is being synchronized; then the incarnation in service gets them after all. A call that the runtime waits for ends that
	// sooner: when it needs what is left of its time for itself. It is the runtime's default deadline, beyond which no call can wait.
	HoldLimit = 2 * time.Second
	// spare is what a synchronization is expected to take more than the last one: one part in this many.
	spare = 8
	// inPlaceShare is how much of an event's time a synchronization in place may take: one part in this many, so that an event that waits for it is still served in time.
	inPlaceShare = 2
)

// patience is how long a call may wait before it is sent: until only its own timeout is left of what the runtime waits; at least half of its share.
func (r *Request) patience(now time.Time) time.Duration {
	half := r.Deadline.Sub(now) / 2
	if !r.Until.After(r.Deadline) {
		return half
	}
	return max(half, r.Until.Sub(now)-r.Timeout)
}

// waited is how long a call has been waiting for a successor when it is sent or refused.
func (r *Request) waited(now time.Time) time.Duration {
	if r.held.IsZero() {
		return 0
	}
	return now.Sub(r.held)
}

// observe notes how long the calls that come could wait for the successor.
func (n *successor) observe(r Request, now time.Time) {
	if p := r.patience(now); n.patience == 0 || p < n.patience {
		n.patience = p
	}
}

// beginHold makes calls wait for the successor from now on.
func (m *Machine) beginHold() {
	l, n := &m.life, m.life.next
	n.held = true
	l.holdSeq++
	n.holdSeq = l.holdSeq
	m.arm(Timer{Kind: Hold, Inc: n.inc, Seq: n.holdSeq}, HoldLimit)
	for i := range m.lane.waiting {
		m.awaitNext(&m.lane.waiting[i].Request)
	}
}

// awaitNext gives a call that waits for the successor all the time that the runtime gives it, and ends the waiting in time for its own.
func (m *Machine) awaitNext(r *Request) {
	n := m.life.next
	m.arm(Timer{Kind: Hold, Inc: n.inc, Seq: n.holdSeq}, r.patience(m.now))
	if r.Until.After(r.Deadline) {
		r.Deadline = r.Until
	}
	if r.held.IsZero() {
		r.held = m.now
	}
}

// holds reports whether calls are to wait during the next round: not where they could not wait for as long as it takes, which costs them time in vain.
func (n *successor) holds() bool {
	return (n.rounds > 0 || !n.inPlace) && (n.patience == 0 || n.took+n.took/spare <= n.patience)
}

// noMoment says why a successor that comes up does not come into service.
func (n *successor) noMoment() string {
	why := fmt.Sprintf("no moment was found between two events in which it could be told the state, which takes %s", n.took.Round(time.Millisecond))
	if n.patience > 0 {
		why += fmt.Sprintf(" while events can wait for %s", n.patience.Round(time.Millisecond))
	}
	return why + "; change it at a quieter time, or with updateStrategy: {type: Recreate}"
}

// tookSync notes how long the incarnation in service takes to be told the state.
func (l *lifecycle) tookSync(d time.Duration, configured bool) {
	if configured {
		l.took = 0
	}
	l.took = max(l.took, d)
}

// slow reports whether events would be lost while the incarnation in service is configured and synchronized in place.
func (m *Machine) slow() bool {
	return m.cfg.Share > 0 && m.life.took > m.cfg.Share/inPlaceShare
}
