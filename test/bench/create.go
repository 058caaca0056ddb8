package main

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// creator times creations of containers in one pod.
type creator struct {
	sd   *side
	pod  *api.PodSandbox
	ctr  *api.Container
	want int // plugins that have to have adjusted each container
	n    int
}

// creator returns a contender that creates containers in a pod of the role, and checks that as many plugins did their work as should.
func (sd *side) creator(p payload, role string, want int) contender {
	c := sd.creations(p, role, want)
	return contender{name: sd.name, do: c.create, pid: sd.pid}
}

func (sd *side) creations(p payload, role string, want int) *creator {
	pod := p.pod("create-"+p.name+"-"+role, role)
	return &creator{sd: sd, pod: pod, ctr: p.container(pod), want: want}
}

// create creates one container and removes it again, which is not timed. That a plugin did not do its work is an error.
func (c *creator) create(ctx context.Context) (time.Duration, error) {
	took, got, err := c.attempt(ctx)
	if err == nil && got != c.want {
		err = fmt.Errorf("%d plugins adjusted the container, not %d", got, c.want)
	}
	return took, err
}

// attempt does the same and returns how many plugins did their work.
func (c *creator) attempt(ctx context.Context) (time.Duration, int, error) {
	c.n++
	pod, ctr := proto.CloneOf(c.pod), proto.CloneOf(c.ctr) // the adaptation may keep and change what it is given
	ctr.Id = fmt.Sprintf("%s-%d", ctr.GetId(), c.n)
	gone := &api.RemoveContainerRequest{Pod: proto.CloneOf(pod), Container: proto.CloneOf(ctr)}
	rpl, took, err := c.sd.createContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: ctr})
	if err != nil {
		return 0, 0, err
	}
	c.sd.lane.Lock()
	defer c.sd.lane.Unlock()
	return took, len(rpl.GetAdjust().GetEnv()), c.sd.nri.RemoveContainer(ctx, gone)
}

// createContainer is one CreateContainer as a runtime makes it, and how long it took without waiting for others.
func (sd *side) createContainer(ctx context.Context, req *api.CreateContainerRequest) (*api.CreateContainerResponse, time.Duration, error) {
	block := sd.nri.BlockPluginSync()
	defer block.Unblock()
	sd.lane.Lock()
	defer sd.lane.Unlock()
	begin := time.Now()
	rpl, err := sd.nri.CreateContainer(ctx, req)
	return rpl, time.Since(begin), err
}
