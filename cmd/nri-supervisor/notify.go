package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// watchdogShare is how often in systemd's WatchdogSec it is told that the supervisor lives: a probe may take a second and one of them may be late.
const watchdogShare = 3

// notifier tells systemd how the service does, by the protocol of sd_notify(3). Where nobody listens (NOTIFY_SOCKET is not set) it does nothing. Safe for concurrent use.
type notifier struct {
	send func(state string)

	mu      sync.Mutex // held while something is sent: systemd goes by the order
	ready   bool
	reloads int // under way, by SIGHUP
}

func newNotifier(log *zap.Logger) *notifier {
	warn := sync.OnceFunc(func() { log.Warn("systemd cannot be told how the service does: NOTIFY_SOCKET does not answer") })
	return &notifier{send: func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			warn()
		}
	}}
}

// sink passes events on and tells systemd of those that matter to it. The service is ready when it has first tried to reach the runtime: from then on it serves, or waits for what it
// cannot bring about.
func (n *notifier) sink(next supervisor.Sink) supervisor.Sink {
	return func(ev supervisor.Event) {
		if e, ok := ev.(supervisor.RuntimeConnected); ok {
			n.tell(fmt.Sprintf("registered with %s %s, %d pods", e.Runtime, e.Version, e.Pods), true)
		}
		if e, ok := ev.(supervisor.RuntimeUnavailable); ok {
			n.tell("runtime "+e.Reason+": "+e.Err, true)
		}
		if _, ok := ev.(supervisor.RuntimeLost); ok {
			n.tell("runtime lost", false)
		}
		if _, ok := ev.(supervisor.Stopping); ok {
			n.mu.Lock()
			n.send(daemon.SdNotifyStopping + "\nSTATUS=stopping")
			n.mu.Unlock()
		}
		next(ev)
	}
}

// tell sets the status line, and says once that the service is ready.
func (n *notifier) tell(status string, ready bool) {
	state := "STATUS=" + strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' ' // a line ends a variable
		}
		return r
	}, status)
	n.mu.Lock()
	defer n.mu.Unlock()
	if ready && !n.ready {
		n.ready = true
		state = daemon.SdNotifyReady + "\n" + state
	}
	n.send(state)
}

// reloading tells systemd that a reload has begun, and returns what tells its end. A service of the type notify-reload, or notify with ExecReload=, is then said to be reloading meanwhile,
// and who asked for it by systemctl waits; by the time that goes with it systemd tells it from an earlier one. Before the service is ready there is nothing to tell.
func (n *notifier) reloading() (done func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ready {
		return func() {}
	}
	n.reloads++
	n.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.reloads--; n.reloads == 0 {
			n.send(daemon.SdNotifyReady)
		}
	}
}

// watch feeds systemd's watchdog for as long as the probe, which goes the way of an event, comes back. It returns when ctx ends.
func watch(ctx context.Context, every time.Duration, alive func() (bool, string), send func(string), log *zap.Logger) {
	tick := time.NewTicker(every / watchdogShare)
	defer tick.Stop()
	for {
		if ok, why := alive(); ok {
			send(daemon.SdNotifyWatchdog)
		} else {
			log.Error("the work loop is stuck; systemd's watchdog is not fed", zap.String("why", why))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// feedWatchdog feeds systemd's watchdog if the service has one (WatchdogSec). It returns when ctx ends.
func feedWatchdog(ctx context.Context, sup *supervisor.Supervisor, send func(string), log *zap.Logger) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog is not fed", zap.Error(err))
	}
	if err != nil || every == 0 {
		return
	}
	watch(ctx, every, sup.Alive, send, log)
}
