package isolation

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// Attachment is one connection of a plugin that runs elsewhere. It is to a [Dock] what an Instance is to Start: used once, and there is no process of ours behind it. Its methods are safe
// for concurrent use.
type Attachment struct {
	conn    *nriConn
	peer    Peer
	started time.Time
	done    chan struct{} // closed when all is over

	mu    sync.Mutex // guards the rest
	cause Reason     // why it is being ended; empty: the other end did it
	exit  Exit
}

// Peer is who dialled, as the kernel tells it, by the numbers of this host.
type Peer struct {
	// UID is the user.
	UID uint32
	// PID is the process, or 0 if it is not visible from here.
	PID int
}

// newAttachment serves the runtime's side of a connection, which it owns from then on.
func newAttachment(conn net.Conn, peer Peer) (*Attachment, error) {
	c, err := newNRIConn(conn, nil) // until it is taken nobody can carry out its updates
	if err != nil {
		return nil, err
	}
	a := &Attachment{conn: c, peer: peer, started: time.Now(), done: make(chan struct{})}
	go a.watch()
	return a, nil
}

// watch waits for the end of the connection and takes everything down.
func (a *Attachment) watch() {
	<-a.conn.closed
	a.conn.close()
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.exit = Exit{Reason: a.cause, Code: -1, Attached: true, Started: a.started, Ended: now, Uptime: now.Sub(a.started)}
	if a.exit.Reason == "" {
		a.exit.Reason = ReasonDisconnected
	}
	close(a.done)
}

// Peer is who dialled.
func (a *Attachment) Peer() Peer { return a.peer }

// PID is the peer's process, or 0.
func (a *Attachment) PID() int { return a.peer.PID }

// Plugin is the NRI client of the plugin, as Instance.Plugin.
func (a *Attachment) Plugin() api.PluginService { return a.conn.plugin }

// Synchronize tells the plugin the state, once, as Instance.Synchronize.
func (a *Attachment) Synchronize(ctx context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	return synchronize(ctx, a.conn.plugin, pods, ctrs, maxSyncPart)
}

// Registration is what the plugin said in RegisterPlugin.
func (a *Attachment) Registration() Registration { return a.conn.registration() }

// ConnClosed is closed when the connection ended, by either side.
func (a *Attachment) ConnClosed() <-chan struct{} { return a.conn.closed }

// Done is closed when the connection is gone and every goroutine of the attachment has ended.
func (a *Attachment) Done() <-chan struct{} { return a.done }

// Exit is how the attachment ended, complete once Done is closed.
func (a *Attachment) Exit() Exit {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.exit
}

// Stop closes the connection, as a runtime does when it ends: NRI's Shutdown is never called by one. It returns when everything has ended.
func (a *Attachment) Stop() Exit { return a.Kill(ReasonStopped) }

// Kill closes the connection. reason becomes the Exit's unless the connection had already ended or another reason came first.
func (a *Attachment) Kill(reason Reason) Exit {
	a.mu.Lock()
	if a.cause == "" && !a.ended() {
		a.cause = reason
	}
	a.mu.Unlock()
	a.conn.hangUp()
	timer := time.NewTimer(tidyUp)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C: // somebody who carries out its updates is stuck
	}
	return a.Exit()
}

func (a *Attachment) ended() bool {
	select {
	case <-a.conn.closed:
		return true
	default:
		return false
	}
}
