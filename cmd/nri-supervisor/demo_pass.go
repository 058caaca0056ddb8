package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

const (
	// demoStartLimit bounds the start of one pass: three processes and their handshakes take about half a second.
	demoStartLimit = 20 * time.Second
	// demoRecoveryLimit bounds how long the plugins may take to be back after their faults have ended: an overdue call, a restart and its backoff take about 3 s.
	demoRecoveryLimit = 15 * time.Second
	// demoTruthLimit bounds how long a plugin may take to know the truth. Removals reach it in the background; a container that was created while the plugin was being synchronized
	// is told by the next synchronization, and there is at most one in 10 s (plugin.ResyncInterval).
	demoTruthLimit = 15 * time.Second
	// demoTick is how often something outside is looked at that gives no sign: metrics, a file.
	demoTick = 50 * time.Millisecond
	// demoProgressEvery is the time between two lines of progress.
	demoProgressEvery = time.Second
)

// demoPass is one run of the stream: the processes while it lasts, and all that is known of it afterwards.
type demoPass struct {
	place  demoPlace
	hosted []demoPlugin // by the supervisor
	direct []demoPlugin // attached to the runtime beside it
	// selectAll makes the broken plugins' manifests select everything, although they are meant for their own pods only.
	selectAll  bool
	pods       []demoPod // the stream, and what came after it
	stream     int       // how many of them are the stream
	runtime    *demoClient
	supervisor *demoChild
	log        *demoLog
	tell       func(format string, args ...any)

	// What is known at the end.
	containers    map[int]demoContainer
	registrations int // of the supervisor
	late          int
	live          []int
	metrics       demoMetrics
	records       []supervisor.MissedWork
	lines         []demoLine
	known         map[string][]string // the containers that a broken plugin knows
	probes        map[string]int      // the pod that showed whether a broken plugin works again
	unfinished    []string            // what did not come about in time after the faults
}

// run runs the stream and returns when every process has ended.
func (p *demoPass) run(ctx context.Context, n *demoNursery) (err error) {
	p.known, p.probes, p.log = map[string][]string{}, map[string]int{}, newDemoLog()
	p.stream = len(p.pods)
	if err := p.place.write(n.self, p.hosted, p.selectAll); err != nil {
		return err
	}
	var children []*demoChild
	defer func() {
		for _, c := range slices.Backward(children) {
			err = errors.Join(err, c.stop())
		}
		p.lines = p.log.all()
	}()
	startCtx, cancel := context.WithTimeout(ctx, demoStartLimit)
	defer cancel()
	if p.runtime, err = startDemoRuntime(startCtx, n, p.place.socket()); err != nil {
		return err
	}
	children = append(children, p.runtime.child)
	p.supervisor, err = n.start(ctx, "supervisor", nil, p.log.read, "run", "--config", p.place.config(), "--log-format", "json")
	if err != nil {
		return err
	}
	children = append(children, p.supervisor)
	if err := p.inService(startCtx); err != nil {
		return err
	}
	for i, pl := range p.direct {
		c, err := p.attach(startCtx, n, pl, i)
		if c != nil {
			children = append(children, c)
		}
		if err != nil {
			return err
		}
	}
	if err := p.play(ctx); err != nil {
		return err
	}
	return p.look(ctx)
}

// inService waits until the supervisor is registered and all its plugins serve.
func (p *demoPass) inService(ctx context.Context) error {
	sup := p.supervisor
	select {
	case <-p.log.listening:
	case <-sup.done:
		return fmt.Errorf("start the supervisor: it ended: %s", sup.last())
	case <-ctx.Done():
		return fmt.Errorf("start the supervisor: %w: %s", ctx.Err(), sup.last())
	}
	if err := p.runtime.waitRegistered(ctx, 1); err != nil {
		return err
	}
	return p.until(ctx, "every plugin to be in service", func() (bool, error) {
		m, err := scrapeDemo(ctx, p.log.metricsAddress())
		return err == nil && m.with("plugin_up").sum() == len(p.hosted), err
	})
}

// attach starts a plugin that connects to the runtime itself.
func (p *demoPass) attach(ctx context.Context, n *demoNursery, pl demoPlugin, before int) (*demoChild, error) {
	doc, err := p.place.pluginDocument(pl)
	if err != nil {
		return nil, err
	}
	file := p.place.pluginConfig(pl.name)
	if err := demoWrite(file, doc); err != nil {
		return nil, err
	}
	c, err := n.start(ctx, "plugin "+pl.name, nil, nil, "demo", "plugin", pl.name, "--socket", p.place.socket(), "--config", file)
	if err != nil {
		return nil, err
	}
	c.lossy = true
	return c, p.runtime.waitRegistered(ctx, before+2)
}

// until asks again and again until something holds, for things that give no sign.
func (p *demoPass) until(ctx context.Context, what string, holds func() (bool, error)) error {
	tick := time.NewTicker(demoTick)
	defer tick.Stop()
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, errors.Join(ctx.Err(), err))
		}
	}
}

// play sends the stream, with the faults in the middle of it if there are broken plugins, and waits until they are back.
func (p *demoPass) play(ctx context.Context) error {
	broken := p.broken()
	from, until := p.stream*demoFaultsFrom/100, p.stream*demoFaultsUntil/100
	began := time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	told := began
	for i, pod := range p.pods[:p.stream] {
		next.Reset(time.Until(began.Add(pod.after)))
		select {
		case <-next.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.runtime.child.done:
			return fmt.Errorf("run the stream: the runtime ended: %s", p.runtime.child.last())
		case <-p.supervisor.done:
			return fmt.Errorf("run the stream: the supervisor ended: %s", p.supervisor.last())
		}
		if time.Since(told) >= demoProgressEvery {
			told = time.Now()
			p.progress(began)
		}
		if len(broken) > 0 && i == from {
			if err := p.place.begin(); err != nil {
				return err
			}
			p.tell("%6.1f s  from now on net-tuner hangs and vol-audit crashes, each on each of its pods", time.Since(began).Seconds())
		}
		if len(broken) > 0 && i == until {
			if err := p.place.end(); err != nil {
				return err
			}
			p.tell("%6.1f s  the faults end here", time.Since(began).Seconds())
		}
		if err := p.runtime.run(pod); err != nil {
			return err
		}
	}
	if _, err := p.runtime.started(ctx, p.stream-1); err != nil {
		return err
	}
	p.progress(began)
	return p.recover(ctx)
}

func (p *demoPass) broken() []demoPlugin {
	return slices.DeleteFunc(slices.Concat(p.hosted, p.direct), func(pl demoPlugin) bool { return pl.action == "" })
}

// progress tells how far the stream is, and how the broken plugins are.
func (p *demoPass) progress(began time.Time) {
	done, _ := p.runtime.counts()
	var plugins strings.Builder
	states := p.log.breakerStates()
	for _, pl := range p.hosted {
		if pl.action == "" {
			continue
		}
		state := states[pl.name]
		if state == "" {
			state = "closed"
		}
		fmt.Fprintf(&plugins, "   %s: breaker %s, restarts %d", pl.name, state, p.log.restarts(pl.name))
	}
	p.tell("%6.1f s  %3d of %d containers%s", time.Since(began).Seconds(), min(done, p.stream), p.stream, plugins.String())
}

// recover sends each broken plugin more pods until it does its work on one and its breaker is closed, one after the other, as a kubelet would bring them.
func (p *demoPass) recover(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, demoRecoveryLimit)
	defer cancel()
	for _, pl := range p.broken() {
		hosted := slices.Contains(p.hosted, pl)
		for {
			pod := demoProbe(pl, len(p.pods))
			p.pods = append(p.pods, pod)
			p.probes[pl.name] = pod.Number
			if err := p.runtime.run(pod); err != nil {
				return err
			}
			c, err := p.runtime.started(ctx, pod.Number)
			if err != nil {
				return err
			}
			back := pl.worked(c)
			if back && hosted {
				if back, err = p.closed(ctx, pl); err != nil {
					return err
				}
			}
			if back || !hosted { // nobody brings a plugin back that the runtime has dropped
				break
			}
			select {
			case <-time.After(demoTick):
				continue
			case <-limit.Done():
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			p.unfinished = append(p.unfinished, fmt.Sprintf("%s was not back %s after its fault had ended", pl.name, demoRecoveryLimit))
			break
		}
	}
	return nil
}

// closed tells whether the supervisor shows the plugin in service with a closed breaker.
func (p *demoPass) closed(ctx context.Context, pl demoPlugin) (bool, error) {
	m, err := scrapeDemo(ctx, p.log.metricsAddress())
	if err != nil {
		return false, err
	}
	return m.with("plugin_up", "plugin", pl.name).sum() == 1 && m.with("breaker_state", "plugin", pl.name, "state", "closed").sum() == 1, nil
}

// look takes down what both sides know when all is quiet.
func (p *demoPass) look(ctx context.Context) error {
	rpl, err := p.runtime.ask(ctx, "settle", demoRequest{Settle: true})
	if err != nil {
		return err
	}
	p.live, p.late = rpl.Live, rpl.Late
	for _, pl := range p.broken() {
		if slices.Contains(p.hosted, pl) && !p.selectAll {
			if err := p.askKnown(ctx, pl); err != nil {
				return err
			}
		}
	}
	p.containers = p.runtime.reports()
	_, registered := p.runtime.counts()
	p.registrations = registered - len(p.direct)
	if p.metrics, err = scrapeDemo(ctx, p.log.metricsAddress()); err != nil {
		return err
	}
	client, err := admin.Dial(p.place.admin())
	if err != nil {
		return err
	}
	if p.records, err = client.Missed(ctx); err != nil {
		return fmt.Errorf("ask the supervisor for missed work: %w", err)
	}
	return nil
}

// askKnown asks the plugin which containers exist, until it says what the runtime says.
func (p *demoPass) askKnown(ctx context.Context, pl demoPlugin) error {
	limit, cancel := context.WithTimeout(ctx, demoTruthLimit)
	defer cancel()
	probe, want := p.pods[p.probes[pl.name]], p.liveOf(pl)
	err := p.until(limit, pl.name+" to know what exists", func() (bool, error) {
		if _, err := p.runtime.ask(ctx, "update a pod", demoRequest{Update: &probe}); err != nil {
			return false, err
		}
		data, err := os.ReadFile(p.place.dump(pl.name))
		if err != nil {
			return false, err
		}
		var d struct {
			Containers []string `json:"containers"`
		}
		if err := json.Unmarshal(data, &d); err != nil {
			return false, fmt.Errorf("read %q: %w", filepath.Base(p.place.dump(pl.name)), err)
		}
		p.known[pl.name] = d.Containers
		return slices.Equal(d.Containers, want), nil
	})
	if err != nil && limit.Err() == nil || ctx.Err() != nil {
		return err
	}
	return nil // what it knows is judged later
}

// liveOf are the containers that run and that the plugin selects, in order.
func (p *demoPass) liveOf(pl demoPlugin) []string {
	var ids []string
	for _, n := range p.live {
		if pl.selects(p.pods[n]) {
			ids = append(ids, p.pods[n].id())
		}
	}
	slices.Sort(ids)
	return ids
}
