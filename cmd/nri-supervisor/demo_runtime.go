package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

func newDemoRuntime() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: "runtime", Short: "Be the demo's container runtime", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !filepath.IsAbs(socket) {
				return usageError{errors.New("demo runtime: --socket has to be an absolute path")}
			}
			return runDemoRuntime(cmd.Context(), socket, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "where plugins connect")
	return cmd
}

// demoRuntime is a container runtime without containers: NRI's own adaptation, the code that containerd and CRI-O link, with pods that exist on paper. As in containerd, one
// event at a time has the node, and a plugin that registers sees no half-made pod.
type demoRuntime struct {
	nri   *adaptation.Adaptation
	began time.Time
	out   *demoLines
	lives sync.WaitGroup // pods that come up or will end

	node       sync.Mutex // one event at a time
	pods       map[int]*api.PodSandbox
	containers map[int]*api.Container
	registered int
	starting   bool // Start synchronizes the plugins that the adaptation launched itself, of which there are none
	late       int
}

// runDemoRuntime serves requests until in ends.
func runDemoRuntime(ctx context.Context, socket string, in io.Reader, out io.Writer) error {
	nrilog.Set(&nriLog{log: zap.NewNop()})
	r := &demoRuntime{
		began: time.Now(), out: &demoLines{w: out}, pods: map[int]*api.PodSandbox{}, containers: map[int]*api.Container{}, starting: true,
	}
	none := filepath.Join(filepath.Dir(socket), "none") // no folder of the host's is looked into
	a, err := adaptation.New("demo", version, r.synchronize, refuseDemoUpdates,
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(none), adaptation.WithPluginConfigPath(none))
	if err != nil {
		return fmt.Errorf("make the runtime: %w", err)
	}
	if err := a.Start(); err != nil {
		return fmt.Errorf("start the runtime: %w", err)
	}
	r.node.Lock()
	r.starting = false
	r.node.Unlock()
	r.nri = a
	defer a.Stop()
	if err := r.out.send(demoReport{Listening: true}); err != nil {
		return err
	}
	return r.serve(ctx, in)
}

// refuseDemoUpdates: no plugin of the demo updates containers on its own.
func refuseDemoUpdates(_ context.Context, u []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return u, nil
}

// synchronize tells a plugin that registers what runs.
func (r *demoRuntime) synchronize(ctx context.Context, tell adaptation.SyncCB) error {
	r.node.Lock()
	defer r.node.Unlock()
	var pods []*api.PodSandbox
	for _, p := range r.pods {
		pods = append(pods, p)
	}
	var containers []*api.Container
	for _, c := range r.containers {
		containers = append(containers, c)
	}
	if _, err := tell(ctx, pods, containers); err != nil {
		return err
	}
	if r.starting {
		return nil
	}
	r.registered++
	return r.out.send(demoReport{Registered: r.registered})
}

func (r *demoRuntime) serve(ctx context.Context, in io.Reader) error {
	lines := demoScanner(in)
	for lines.Scan() {
		var q demoRequest
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		switch {
		case q.Pod != nil:
			r.lives.Go(func() { r.live(ctx, *q.Pod) })
		case q.Update != nil:
			go r.reply(q.Seq, func(*demoReply) error { return r.update(ctx, *q.Update) })
		case q.Settle:
			go r.reply(q.Seq, r.settle)
		}
	}
	return lines.Err()
}

func (r *demoRuntime) reply(seq int, do func(*demoReply) error) {
	rpl := demoReply{Seq: seq}
	if err := do(&rpl); err != nil {
		rpl.Err = err.Error()
	}
	_ = r.out.send(demoReport{Reply: &rpl}) // fails when the conductor is gone, and then stdin ends
}

// settle waits until every container that will end has ended, and tells what is left.
func (r *demoRuntime) settle(rpl *demoReply) error {
	r.lives.Wait()
	r.node.Lock()
	defer r.node.Unlock()
	rpl.Late = r.late
	for n := range r.containers {
		rpl.Live = append(rpl.Live, n)
	}
	slices.Sort(rpl.Live)
	return nil
}

// event gives the node to one event, and tells when it had it.
func (r *demoRuntime) event(do func() error) (begin, end time.Duration, err error) {
	r.node.Lock()
	defer r.node.Unlock()
	begin = time.Since(r.began)
	err = do()
	end = time.Since(r.began)
	if end-begin >= api.DefaultPluginRequestTimeout {
		r.late++
	}
	return begin, end, err
}

// live is the life of one pod.
func (r *demoRuntime) live(ctx context.Context, p demoPod) {
	pod, container := p.sandbox(), p.container()
	rec := demoContainer{Number: p.Number, Arrived: time.Since(r.began)}
	err := r.up(ctx, &rec, pod, container)
	rec.Started = time.Since(r.began)
	if err != nil {
		rec.Err = err.Error()
	}
	_ = r.out.send(demoReport{Container: &rec}) // fails when the conductor is gone
	if err == nil && p.Life == 0 {
		return
	}
	if err == nil {
		end := time.NewTimer(p.Life)
		defer end.Stop()
		select {
		case <-end.C:
		case <-ctx.Done():
			return
		}
	}
	r.down(ctx, p.Number, pod, container)
}

// up does what the kubelet waits for. Plugins that register meanwhile wait, as with every runtime.
func (r *demoRuntime) up(ctx context.Context, rec *demoContainer, pod *api.PodSandbox, container *api.Container) error {
	block := r.nri.BlockPluginSync()
	defer block.Unblock()
	_, _, err := r.event(func() error {
		err := r.nri.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: pod})
		if err == nil {
			r.pods[rec.Number] = pod
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("run pod: %w", err)
	}
	rec.CreateBegin, rec.CreateEnd, err = r.event(func() error {
		rpl, err := r.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: proto.CloneOf(container)})
		if err != nil {
			return err
		}
		r.containers[rec.Number] = container
		rec.Reply, err = proto.MarshalOptions{Deterministic: true}.Marshal(rpl)
		return err
	})
	if err != nil {
		return fmt.Errorf("create container: %w", err)
	}
	for _, do := range []func() error{
		func() error {
			return r.nri.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: pod, Container: container})
		},
		func() error {
			return r.nri.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: container})
		},
		func() error {
			return r.nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: pod, Container: container})
		},
	} {
		if _, _, err := r.event(do); err != nil {
			return fmt.Errorf("start container: %w", err)
		}
	}
	return nil
}

// down ends a pod. What a plugin says to that changes nothing.
func (r *demoRuntime) down(ctx context.Context, number int, pod *api.PodSandbox, container *api.Container) {
	for _, do := range []func() error{
		func() error {
			_, err := r.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: container})
			return err
		},
		func() error {
			delete(r.containers, number)
			return r.nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: container})
		},
		func() error { return r.nri.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: pod}) },
		func() error {
			delete(r.pods, number)
			return r.nri.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: pod})
		},
	} {
		_, _, _ = r.event(do)
	}
}

// update is an event without a consequence for the pod.
func (r *demoRuntime) update(ctx context.Context, p demoPod) error {
	_, _, err := r.event(func() error {
		_, err := r.nri.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{Pod: p.sandbox()})
		return err
	})
	return err
}
