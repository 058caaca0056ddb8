package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// docks are the sockets of the plugins that attach, by plugin. Each listens from the plugin's first launch until the plugin is over. The zero value is ready for use; safe for
// concurrent use.
type docks struct {
	mu   sync.Mutex
	open map[string]*dock
}

type dock struct {
	*isolation.Dock
	spec policy.AttachSpec
	over <-chan struct{} // of whom it was opened for
}

// serves reports whether it was opened for the plugin as it is now.
func (d *dock) serves(p *policy.Plugin, over <-chan struct{}) bool {
	return d.over == over && d.spec.Socket == p.Spec.Attach.Socket && slices.Equal(d.spec.AllowUIDs, p.Spec.Attach.AllowUIDs)
}

// of returns the plugin's socket, listening.
func (s *docks) of(ctx context.Context, p *policy.Plugin, h supervisor.Hooks, remade func(error)) (*isolation.Dock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.open[p.Name]; d != nil {
		if d.serves(p, h.Over) {
			return d.Dock, nil
		}
		d.Close() // the plugin's manifest was replaced
		delete(s.open, p.Name)
	}
	uids := make([]uint32, 0, len(p.Spec.Attach.AllowUIDs))
	for _, uid := range p.Spec.Attach.AllowUIDs {
		uids = append(uids, uint32(uid)) //nolint:gosec // validated
	}
	opened, err := isolation.OpenDock(ctx, isolation.DockSpec{
		Socket: p.Spec.Attach.Socket, AllowUIDs: uids, OnWaiting: h.Waiting,
		OnRefused: func(r isolation.Refusal) {
			h.Refused(supervisor.Refused{UID: r.Peer.UID, PID: r.Peer.PID, Why: r.Why, More: r.More})
		},
		OnRemade: remade,
	})
	if err != nil {
		return nil, err
	}
	d := &dock{Dock: opened, spec: *p.Spec.Attach, over: h.Over}
	if s.open == nil {
		s.open = map[string]*dock{}
	}
	s.open[p.Name] = d
	go func() {
		<-d.over
		s.closeOne(p.Name, d)
	}()
	return opened, nil
}

func (s *docks) closeOne(name string, d *dock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[name] == d {
		delete(s.open, name)
		d.Close()
	}
}

// close closes all sockets.
func (s *docks) close() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, d := range open {
		all.Go(d.Close)
	}
	all.Wait()
}

// attach waits for a connection of a plugin that runs elsewhere.
func (l *launcher) attach(ctx context.Context, p *policy.Plugin, h supervisor.Hooks) (supervisor.Incarnation, error) {
	folder := filepath.Dir(p.Spec.Attach.Socket)
	if err := l.looks.Answers(folder); err != nil {
		return nil, fmt.Errorf("listen at %q: %w", p.Spec.Attach.Socket, err)
	}
	if by := l.runs.sees(p, p.Spec.Attach.Socket, p.Spec.Attach.AllowUIDs); by != "" {
		return nil, fmt.Errorf("listen at %q: plugin %s runs and can connect there: leave attach.socket out, which puts the socket below runDir, or restart that plugin or the service", p.Spec.Attach.Socket, by)
	}
	d, err := l.docks.of(ctx, p, h, func(err error) { l.remade(p, err) })
	if err != nil {
		return nil, err
	}
	a, err := d.Next(ctx, h.Update)
	if err != nil {
		return nil, err
	}
	return &attachment{Attachment: a, identity: registered(p, a.Registration())}, nil
}

// registered is what a registration tells; name and index only where they differ from the manifest's.
func registered(p *policy.Plugin, r isolation.Registration) supervisor.Identity {
	id := supervisor.Identity{NRIVersion: r.NRIVersion}
	if r.Name != p.Name {
		id.Name = r.Name
	}
	if r.Index != p.Index {
		id.Index = r.Index
	}
	return id
}

// attachment is a connection as the supervisor sees it.
type attachment struct {
	*isolation.Attachment
	identity supervisor.Identity
}

var _ supervisor.Incarnation = (*attachment)(nil)

// Plugin is the NRI service of the plugin.
func (a *attachment) Plugin() api.PluginService { return a.Attachment.Plugin() }

// CallContext returns a context with a deadline that is never cancelled.
func (*attachment) CallContext(ctx context.Context, d time.Time) context.Context {
	return isolation.WithDeadline(ctx, d)
}

// InPlace is false: a second Synchronize on one connection is outside of NRI's contract.
func (*attachment) InPlace() bool { return false }

// Health is never asked for.
func (*attachment) Health(context.Context) error { return isolation.ErrNoControl }

// Identity says what runs.
func (a *attachment) Identity() supervisor.Identity { return a.identity }

// Disconnected is closed when the connection has ended.
func (a *attachment) Disconnected() <-chan struct{} { return a.ConnClosed() }

// Exit says how it ended.
func (a *attachment) Exit() supervisor.Exit { return translate(a.Attachment.Exit()) }

// Stop closes the connection.
func (a *attachment) Stop(context.Context) { a.Attachment.Stop() }

// Kill closes the connection.
func (a *attachment) Kill(why string) {
	a.Attachment.Kill(killReason(why, isolation.ReasonDisconnected))
}

// killReason translates what the supervisor kills for; other is for what has no reason of its own.
func killReason(why string, other isolation.Reason) isolation.Reason {
	if r := isolation.Reason(why); slices.Contains([]isolation.Reason{isolation.ReasonHung, isolation.ReasonHealth}, r) {
		return r
	}
	return other
}
