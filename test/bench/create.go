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
	pod := p.pod("create-"+p.name+"-"+role, role)
	c := &creator{sd: sd, pod: pod, ctr: p.container(pod), want: want}
	return contender{name: sd.name, do: c.create, pid: sd.pid}
}

// create creates one container and removes it again, which is not timed.
func (c *creator) create(ctx context.Context) (time.Duration, error) {
	c.n++
	pod, ctr := proto.CloneOf(c.pod), proto.CloneOf(c.ctr) // the adaptation may keep and change what it is given
	ctr.Id = fmt.Sprintf("%s-%d", ctr.GetId(), c.n)
	gone := &api.RemoveContainerRequest{Pod: proto.CloneOf(pod), Container: proto.CloneOf(ctr)}
	rpl, took, err := c.sd.createContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: ctr})
	if err != nil {
		return 0, err
	}
	if got := len(rpl.GetAdjust().GetEnv()); got != c.want {
		return 0, fmt.Errorf("%d plugins adjusted the container, not %d: %v", got, c.want, rpl.GetAdjust().GetAnnotations())
	}
	c.sd.lane.Lock()
	defer c.sd.lane.Unlock()
	return took, c.sd.nri.RemoveContainer(ctx, gone)
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
