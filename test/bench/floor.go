package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"
)

// floor is a plugin process behind bare ttrpc on a socket pair: no NRI adaptation, no multiplexer, no stub. Nothing that asks a process with this protocol can be faster.
type floor struct {
	kid    *child
	client *ttrpc.Client
}

func (b *bench) newFloor() (*floor, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("create socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "floor"), os.NewFile(uintptr(fds[1]), "floor of plugin")
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	kid, err := b.start(b.plugin, []string{"-floor", "-role", "p00"}, nil, []*os.File{theirs})
	if err = errors.Join(err, theirs.Close()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	f := &floor{kid: kid, client: ttrpc.NewClient(conn)}
	b.floors = append(b.floors, f)
	return f, nil
}

func (f *floor) close() {
	_ = f.client.Close()
	f.kid.ask()
	f.kid.end()
}

// creator returns a contender that sends the same payload as side.creator does.
func (f *floor) creator(p payload, role string) contender {
	pod := p.pod("create-"+p.name+"-"+role, role)
	req := &api.CreateContainerRequest{Pod: pod, Container: p.container(pod)}
	plugin := api.NewPluginClient(f.client)
	return contender{name: "floor", do: func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		_, err := plugin.CreateContainer(ctx, req)
		return time.Since(begin), err
	}}
}
