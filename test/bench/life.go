package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// step is one event in the life of a pod with one container, in NRI's names.
type step struct {
	event string
	do    func(context.Context, *side, *api.PodSandbox, *api.Container) error
}

// steps is a whole life, in order, with every event that a runtime sends.
func steps() []step {
	resources := func() *api.LinuxResources {
		return &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(uint64(2048))}}
	}
	return []step{
		{"RunPodSandbox", func(ctx context.Context, s *side, p *api.PodSandbox, _ *api.Container) error {
			return s.nri.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: p})
		}},
		{"UpdatePodSandbox", func(ctx context.Context, s *side, p *api.PodSandbox, _ *api.Container) error {
			_, err := s.nri.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{Pod: p, LinuxResources: resources()})
			return err
		}},
		{"PostUpdatePodSandbox", func(ctx context.Context, s *side, p *api.PodSandbox, _ *api.Container) error {
			return s.nri.PostUpdatePodSandbox(ctx, &api.PostUpdatePodSandboxRequest{Pod: p})
		}},
		{"CreateContainer", func(ctx context.Context, s *side, p *api.PodSandbox, c *api.Container) error {
			_, err := s.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: p, Container: c})
			return err
		}},
		{"PostCreateContainer", func(ctx context.Context, s *side, p *api.PodSandbox, c *api.Container) error {
			return s.nri.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: p, Container: c})
		}},
		{"StartContainer", func(ctx context.Context, s *side, p *api.PodSandbox, c *api.Container) error {
			return s.nri.StartContainer(ctx, &api.StartContainerRequest{Pod: p, Container: c})
		}},
		{"PostStartContainer", func(ctx context.Context, s *side, p *api.PodSandbox, c *api.Container) error {
			return s.nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: p, Container: c})
		}},
		{"UpdateContainer", func(ctx context.Context, s *side, p *api.PodSandbox, c *api.Container) error {
			_, err := s.nri.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: p, Container: c, LinuxResources: resources()})
			return err
		}},
		{"PostUpdateContainer", func(ctx context.Context, s *side, p *api.PodSandbox, c *api.Container) error {
			return s.nri.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Pod: p, Container: c})
		}},
		{"StopContainer", func(ctx context.Context, s *side, p *api.PodSandbox, c *api.Container) error {
			_, err := s.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: p, Container: c})
			return err
		}},
		{"RemoveContainer", func(ctx context.Context, s *side, p *api.PodSandbox, c *api.Container) error {
			return s.nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: p, Container: c})
		}},
		{"StopPodSandbox", func(ctx context.Context, s *side, p *api.PodSandbox, _ *api.Container) error {
			return s.nri.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: p})
		}},
		{"RemovePodSandbox", func(ctx context.Context, s *side, p *api.PodSandbox, _ *api.Container) error {
			return s.nri.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: p})
		}},
	}
}

// event runs one step under the runtime's lane and returns how long it took without waiting for others.
func (sd *side) event(ctx context.Context, st step, pod *api.PodSandbox, ctr *api.Container) (time.Duration, error) {
	p, c := proto.CloneOf(pod), proto.CloneOf(ctr)
	block := sd.nri.BlockPluginSync()
	defer block.Unblock()
	sd.lane.Lock()
	defer sd.lane.Unlock()
	begin := time.Now()
	err := st.do(ctx, sd, p, c)
	if err != nil {
		err = fmt.Errorf("%s: %w", st.event, err)
	}
	return time.Since(begin), err
}

// events compares every event of a pod's life, and the life as a whole, with 10 plugins that subscribe to all of them.
func (b *bench) events(ctx context.Context) error {
	const n = 10
	defer b.closeSides()
	stock, err1 := b.stock(ctx, setup{plugins: n, events: true})
	ours, err2 := b.supervised(ctx, setup{plugins: n, events: true})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, share := range shares(n) {
		err1 := b.lives(ctx, typical(), share, n, b.times(matrixRounds), opsPerRound/2, stock, ours)
		err2 := b.lives(ctx, heavy(), share, n, b.times(heavyRounds), heavyOps, stock, ours)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	}
	return nil
}

// lives compares the lives of so many pods in each round.
func (b *bench) lives(ctx context.Context, p payload, share share, n, nRounds, ops int, sides ...*side) error {
	life := steps()
	times := make([][2]timing, len(life)+1) // the last is the whole
	for round := range nRounds {
		for turn := range sides {
			at := (turn + round) % len(sides)
			sd := sides[at]
			for i := range times {
				times[i][at].Name = sd.name
				times[i][at].rounds = append(times[i][at].rounds, nil)
			}
			for op := range ops {
				pod := p.pod(fmt.Sprintf("life-%s-%s-%d-%d", p.name, share.name, round, op), share.role)
				took, err := sd.live(ctx, life, pod, p.container(pod))
				if err != nil {
					return fmt.Errorf("%s: %w", sd.name, err)
				}
				for i, d := range took {
					times[i][at].rounds[round] = append(times[i][at].rounds[round], d)
				}
			}
		}
	}
	for i := range times {
		name := wholeLife
		if i < len(life) {
			name = life[i].event
		}
		times[i][0].finish()
		times[i][1].finish()
		b.add(row{Event: name, Payload: p.name, Plugins: n, Selected: share.name, Timings: times[i][:]})
	}
	return nil
}

// wholeLife is the name of all events of a pod with one container together.
const wholeLife = "a pod's whole life"

// live sends a pod with one container through its life, and returns how long each event took, and last their sum.
func (sd *side) live(ctx context.Context, life []step, pod *api.PodSandbox, ctr *api.Container) ([]time.Duration, error) {
	out := make([]time.Duration, 0, len(life)+1)
	var sum time.Duration
	for _, st := range life {
		took, err := sd.event(ctx, st, pod, ctr)
		if err != nil {
			return nil, err
		}
		out, sum = append(out, took), sum+took
	}
	return append(out, sum), nil
}

// parallelStarts compares how long pods take to start when several do at once: RunPodSandbox to PostStartContainer, with the waiting for each other that a runtime's one lane brings.
func (b *bench) parallelStarts(ctx context.Context) error {
	const n, atOnce = 10, 10
	defer b.closeSides()
	stock, err1 := b.stock(ctx, setup{plugins: n, events: true})
	ours, err2 := b.supervised(ctx, setup{plugins: n, events: true})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, share := range shares(n) {
		times := [2]timing{{Name: stock.name}, {Name: ours.name}}
		for round := range b.times(matrixRounds) {
			for turn := range 2 {
				at := (turn + round) % 2
				samples, err := []*side{stock, ours}[at].startAtOnce(ctx, fmt.Sprintf("%s-%d", share.name, round), share.role, atOnce)
				if err != nil {
					return err
				}
				times[at].rounds = append(times[at].rounds, samples)
			}
		}
		times[0].finish()
		times[1].finish()
		b.add(row{Event: "10 pods at once", Payload: "typical", Plugins: n, Selected: share.name, Timings: times[:]})
	}
	return nil
}

// startAtOnce starts pods side by side, ends them again, and returns how long each start took.
func (sd *side) startAtOnce(ctx context.Context, id, role string, n int) ([]time.Duration, error) {
	took, errs := make([]time.Duration, n), make([]error, n)
	var started, ended sync.WaitGroup
	started.Add(n)
	for i := range n {
		ended.Go(func() {
			pod := typical().pod(fmt.Sprintf("par-%s-%d", id, i), role)
			ctr := typical().container(pod)
			begin := time.Now()
			for _, st := range steps() {
				if st.event == "UpdateContainer" { // it runs now
					took[i] = time.Since(begin)
					started.Done()
					started.Wait()
				}
				if _, err := sd.event(ctx, st, pod, ctr); err != nil {
					errs[i] = errors.Join(errs[i], err)
				}
			}
		})
	}
	ended.Wait()
	return took, errors.Join(errs...)
}
