package isolation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
)

const (
	// maxArrivals is how many connections of one dock may not have registered yet. A plugin that dials has one, or two while its DaemonSet is rolled over.
	maxArrivals = 4
	// registerLimit is how long a connection may take to register: what a runtime gives its plugins.
	registerLimit = api.DefaultPluginRegistrationTimeout
	// refusalEvery is the shortest time between two reports of refused connections; those between are counted.
	refusalEvery = 10 * time.Second
	// acceptPause is the wait after a failed accept, for example for want of descriptors.
	acceptPause = 100 * time.Millisecond
)

// ErrDockClosed is returned by Dock.Next after Close.
var ErrDockClosed = errors.New("the plugin's socket is closed")

// DockSpec says where a plugin attaches and who may. Socket is required.
type DockSpec struct {
	// Socket is the absolute path of the socket. The folder is made if it is missing, and never removed or replaced: pods have it mounted.
	Socket string
	// AllowUIDs are the users that may connect, by this host's numbers. Empty: nobody.
	AllowUIDs []uint32
	// OnRefused is told of connections that were turned away, at most once in ten seconds. It must not block. Nil: nobody is told.
	OnRefused func(Refusal)
	// OnWaiting is told when a registered connection waits and nobody is in Next for it. It must not block. Nil: nobody is told.
	OnWaiting func()
	// RegisterLimit bounds the time from the connection to RegisterPlugin. 0: five seconds, as runtimes have it.
	RegisterLimit time.Duration
	// OnRemade is told when the socket's file was gone, or another one lay there: nil if the socket was made anew, else why it could not be, once for each reason. It must
	// not block. Nil: nobody is told.
	OnRemade func(error)
	// WatchEvery is how often the dock looks whether the socket's file is still there. 0: one second.
	WatchEvery time.Duration
}

// Refusal is a connection that was turned away.
type Refusal struct {
	Peer Peer
	Why  string
	// More counts the refusals since the previous report that were not reported.
	More int
}

// Dock is the socket at which one plugin that runs elsewhere attaches: it dials as if this were a runtime's NRI socket, and registers. Its methods are safe for concurrent use.
//
// Each connection is asked for its user at once and then has a few seconds to register. Of registered connections that nobody has taken, only the newest is kept: an older one is
// a pod that was replaced meanwhile.
type Dock struct {
	spec    DockSpec
	closing chan struct{}
	work    sync.WaitGroup

	mu       sync.Mutex // guards the rest
	closed   bool
	socket   *attachSocket
	arrivals int // connections that have not registered
	waiting  *Attachment
	taker    chan struct{} // not nil: somebody is in Next; closed when there is something to look at
	told     time.Time     // the last report of a refusal
	more     int           // refusals since then
}

// OpenDock listens. On error nothing is left but folders.
func OpenDock(ctx context.Context, s DockSpec) (*Dock, error) {
	if s.RegisterLimit == 0 {
		s.RegisterLimit = registerLimit
	}
	if s.WatchEvery == 0 {
		s.WatchEvery = watchSocketEvery
	}
	s.AllowUIDs = slices.Clone(s.AllowUIDs)
	l, err := listenAt(ctx, s.Socket, s.AllowUIDs)
	if err != nil {
		return nil, err
	}
	d := &Dock{spec: s, socket: l, closing: make(chan struct{})}
	d.work.Go(func() { d.accept(l) }) //nolint:contextcheck // a connection outlives the opening
	d.work.Go(d.watch)
	return d, nil
}

// Close stops listening, removes the socket, and closes the connections that nobody has taken. Those that were taken stay.
func (d *Dock) Close() {
	d.mu.Lock()
	waiting := d.waiting
	d.waiting = nil
	if !d.closed {
		d.closed = true
		close(d.closing)
		_ = d.socket.Close() // nobody reads what it could say
	}
	d.wakeLocked()
	d.mu.Unlock()
	if waiting != nil {
		waiting.Kill(ReasonStopped)
	}
	d.work.Wait()
}

// Next waits for a connection that is registered, and hands it over. onUpdate receives the updates that the plugin asks for on its own, as Spec.OnUpdate. One caller at a time.
func (d *Dock) Next(ctx context.Context, onUpdate func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error)) (*Attachment, error) {
	for {
		d.mu.Lock()
		if d.closed {
			d.mu.Unlock()
			return nil, ErrDockClosed
		}
		a := d.waiting
		d.waiting = nil
		wake := make(chan struct{})
		if a == nil {
			d.taker = wake
		}
		d.mu.Unlock()
		switch {
		case a == nil:
		case a.ended():
			continue
		default:
			a.conn.takeUpdates(onUpdate)
			return a, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			d.mu.Lock()
			if d.taker == wake {
				d.taker = nil
			}
			d.mu.Unlock()
			return nil, ctx.Err()
		}
	}
}

// wakeLocked makes who is in Next look again.
func (d *Dock) wakeLocked() (woke bool) {
	if d.taker == nil {
		return false
	}
	close(d.taker)
	d.taker = nil
	return true
}

func (d *Dock) accept(l *attachSocket) {
	for {
		c, err := l.AcceptUnix()
		if err == nil {
			d.arrive(c)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case <-d.closing:
			return
		case <-time.After(acceptPause):
		}
	}
}

// arrive looks at who dialled. It does not wait for them.
func (d *Dock) arrive(c *net.UnixConn) {
	peer, err := peerOf(c)
	switch {
	case err != nil:
		d.refuse(peer, err.Error(), c)
		return
	case !slices.Contains(d.spec.AllowUIDs, peer.UID):
		d.refuse(peer, "the user is not in allowUIDs", c)
		return
	case !d.begin():
		d.refuse(peer, fmt.Sprintf("%d connections have not registered yet", maxArrivals), c)
		return
	}
	a, err := newAttachment(c, peer)
	if err != nil { // it has closed the connection
		d.end()
		d.report(peer, err.Error())
		return
	}
	d.work.Go(func() { d.welcome(a) })
}

// begin takes one of the places for connections that have not registered.
func (d *Dock) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.arrivals >= maxArrivals {
		return false
	}
	d.arrivals++
	return true
}

func (d *Dock) end() {
	d.mu.Lock()
	d.arrivals--
	d.mu.Unlock()
}

// welcome waits for the registration.
func (d *Dock) welcome(a *Attachment) {
	limit := time.NewTimer(d.spec.RegisterLimit)
	defer limit.Stop()
	select {
	case <-a.conn.registered:
		d.end()
		d.offer(a)
		return
	case <-a.conn.closed: // somebody who only looked whether there is a listener
	case <-limit.C:
		d.report(a.peer, fmt.Sprintf("it did not register in %s", d.spec.RegisterLimit))
	case <-d.closing:
	}
	a.Kill(ReasonStartFailed)
	d.end() // only now: until here it costs as much as a connection does
}

// offer makes a registered connection the one that is taken next.
func (d *Dock) offer(a *Attachment) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		a.Kill(ReasonStopped)
		return
	}
	older := d.waiting
	d.waiting = a
	woke := d.wakeLocked()
	d.mu.Unlock()
	if older != nil {
		older.Kill(ReasonStopped)
	}
	if !woke && d.spec.OnWaiting != nil {
		d.spec.OnWaiting()
	}
}

func (d *Dock) refuse(p Peer, why string, c net.Conn) {
	d.report(p, why)
	_ = c.Close() // there is nobody to tell
}

func (d *Dock) report(p Peer, why string) {
	d.mu.Lock()
	if d.spec.OnRefused == nil || !d.told.IsZero() && time.Since(d.told) < refusalEvery {
		d.more++
		d.mu.Unlock()
		return
	}
	more := d.more
	d.told, d.more = time.Now(), 0
	d.mu.Unlock()
	d.spec.OnRefused(Refusal{Peer: p, Why: why, More: more})
}

// peerOf asks the kernel who is at the other end.
func peerOf(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("ask for the peer: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, credErr); err != nil {
		return Peer{}, fmt.Errorf("ask for the peer: %w", err)
	}
	return Peer{UID: cred.Uid, PID: int(cred.Pid)}, nil
}
