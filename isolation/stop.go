package isolation

import (
	"context"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	defaultShutdown = 2 * time.Second
	defaultTerm     = 2 * time.Second
	defaultKill     = 2 * time.Second
	defaultDrain    = 500 * time.Millisecond
	// tidyUp is allowed for what follows a process's death besides draining its pipes; it takes a few milliseconds.
	tidyUp = time.Second
)

// withDefaults fills in what is zero.
func (g StopGrace) withDefaults() StopGrace {
	fill := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	fill(&g.Shutdown, defaultShutdown)
	fill(&g.Term, defaultTerm)
	fill(&g.Kill, defaultKill)
	fill(&g.Drain, defaultDrain)
	return g
}

// Stop ends the incarnation: Shutdown call and control Stop, then SIGTERM, then SIGKILL to the group, each bounded by
// Spec.StopGrace; the end of ctx skips to SIGKILL. It returns when the instance is done, or with Alive set when SIGKILL
// did not end the process in time. Concurrent calls wait for the first one.
func (i *Instance) Stop(ctx context.Context) Exit {
	i.setCause(ReasonStopped)
	i.stopOnce.Do(func() {
		if !i.askToShutDown(ctx) {
			i.terminate(ctx)
		}
	})
	return i.destroy()
}

// Kill sends SIGKILL to the group at once and returns like Stop. reason becomes the Exit's unless the process had
// already ended or another reason came first.
func (i *Instance) Kill(reason Reason) Exit {
	i.setCause(reason)
	return i.destroy()
}

// askToShutDown calls the plugin's Shutdown and its control service's Stop, and tells whether the process ended.
func (i *Instance) askToShutDown(ctx context.Context) bool {
	p := i.process()
	if i.spec.StopGrace.Shutdown < 0 {
		return p.gone()
	}
	ctx, cancel := context.WithTimeout(ctx, i.spec.StopGrace.Shutdown)
	defer cancel()
	willExit := make(chan bool, 1)
	started := i.help(func() {
		// The call may be stuck in a write, for as long as the connection is open.
		_, _ = i.conn.plugin.Shutdown(ctx, &api.ShutdownRequest{}) // best effort, the signals follow
		control, err := i.control()
		if err != nil {
			willExit <- false
			return
		}
		// A plugin that obeys quickly may be gone before its answer is out.
		willExit <- status.Code(control.Stop(ctx)) != codes.Unimplemented
	})
	if !started {
		return true
	}
	select {
	case <-p.exited:
		return true
	case <-ctx.Done():
		return false
	case ok := <-willExit:
		if !ok {
			return false // nobody told it to exit
		}
	}
	select {
	case <-p.exited:
		return true
	case <-ctx.Done():
		return false
	}
}

// terminate sends SIGTERM and waits. SIGCONT lets a stopped process take it.
func (i *Instance) terminate(ctx context.Context) {
	if i.spec.StopGrace.Term < 0 || ctx.Err() != nil {
		return
	}
	p := i.process()
	p.signal(unix.SIGTERM)
	p.signal(unix.SIGCONT)
	timer := time.NewTimer(i.spec.StopGrace.Term)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// destroy kills the group and waits for the end of the instance.
func (i *Instance) destroy() Exit {
	p := i.process()
	p.signal(unix.SIGKILL)
	g := i.spec.StopGrace
	timer := time.NewTimer(max(g.Kill, 0) + max(g.Drain, 0) + tidyUp)
	defer timer.Stop()
	select {
	case <-i.done:
		return i.Exit()
	case <-timer.C:
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return Exit{
		Reason: i.cause, Code: -1, LastOutput: i.out.lastOutput(), Started: p.started,
		Uptime: time.Since(p.started), Alive: !p.gone(),
	}
}

// help runs f in a goroutine that the instance waits for, unless it is already ending.
func (i *Instance) help(f func()) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ending {
		return false
	}
	i.helpers.Go(f)
	return true
}
