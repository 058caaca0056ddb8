// Command plugin is the NRI plugin that the benchmarks measure with: the same binary runs as a stock plugin of a runtime and below the supervisor.
//
// It acts on pods whose label "role" is its own role or "all": it sets one variable and one annotation on each of their containers. To others it says nothing. A runtime asks it
// about every pod; the supervisor only about those that it selects, which it then answers the same way.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	nrinet "github.com/containerd/nri/pkg/net"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

var (
	_ stub.ConfigureInterface       = (*plugin)(nil)
	_ stub.CreateContainerInterface = (*plugin)(nil)
)

// plugin is the plugin. Its fields do not change.
type plugin struct {
	role   string
	work   time.Duration // for each container it acts on
	slow   time.Duration // for each pod with the label slow
	events api.EventMask
}

func run(ctx context.Context, args []string) error {
	p := &plugin{}
	flags := flag.NewFlagSet("plugin", flag.ContinueOnError)
	flags.StringVar(&p.role, "role", "", "the pods to act on")
	flags.DurationVar(&p.work, "work", 0, "how long to work on a container")
	flags.DurationVar(&p.slow, "slow", 0, "how long to work on a pod with the label slow")
	all := flags.Bool("all-events", false, "subscribe to every event instead of CreateContainer")
	flood := flags.Bool("flood", false, "write to stderr without end")
	floor := flags.Bool("floor", false, "serve bare ttrpc on descriptor 3")
	socket := flags.String("socket", "", "the runtime's socket; empty: as the environment says")
	name := flags.String("name", "", "the name to register with; empty: as the environment says")
	index := flags.String("index", "", "the index to register with")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *floor {
		return p.serveFloor(ctx)
	}
	p.events.Set(api.Event_CREATE_CONTAINER)
	if *all {
		p.events = api.ValidEvents
		p.events.Clear(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	}
	opts := []stub.Option{stub.WithOnClose(func() {})}
	if *socket != "" {
		opts = append(opts, stub.WithSocketPath(*socket), stub.WithPluginName(*name), stub.WithPluginIdx(*index))
	}
	st, err := stub.New(p, opts...)
	if err != nil {
		return err
	}
	if *flood {
		go writeForEver()
	}
	return st.Run(ctx)
}

// writeForEver writes lines until nobody reads them.
func writeForEver() {
	const line, lines = "all work and no play makes a plugin that is heard by everybody\n", 512
	text := []byte(strings.Repeat(line, lines))
	for {
		if _, err := os.Stderr.Write(text); err != nil {
			return
		}
	}
}

// wait is work that needs no processor, like asking a device.
func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// Configure subscribes.
func (p *plugin) Configure(context.Context, string, string, string) (api.EventMask, error) {
	return p.events, nil
}

// Synchronize says nothing.
func (p *plugin) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

// CreateContainer adjusts the containers of its role.
func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, _ *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	labels := pod.GetLabels()
	if r := labels["role"]; r != p.role && r != "all" {
		return nil, nil, nil
	}
	switch {
	case labels["hang"] != "":
		select {}
	case labels["slow"] != "":
		wait(p.slow)
	default:
		wait(p.work)
	}
	return p.adjustment(), nil, nil
}

func (p *plugin) adjustment() *api.ContainerAdjustment {
	a := &api.ContainerAdjustment{}
	a.AddEnv("BENCH_"+p.role, "1")
	a.AddAnnotation("bench.example/"+p.role, "1")
	return a
}

// RunPodSandbox says nothing.
func (*plugin) RunPodSandbox(context.Context, *api.PodSandbox) error { return nil }

// UpdatePodSandbox says nothing.
func (*plugin) UpdatePodSandbox(context.Context, *api.PodSandbox, *api.LinuxResources, *api.LinuxResources) error {
	return nil
}

// PostUpdatePodSandbox says nothing.
func (*plugin) PostUpdatePodSandbox(context.Context, *api.PodSandbox) error { return nil }

// StopPodSandbox says nothing.
func (*plugin) StopPodSandbox(context.Context, *api.PodSandbox) error { return nil }

// RemovePodSandbox says nothing.
func (*plugin) RemovePodSandbox(context.Context, *api.PodSandbox) error { return nil }

// PostCreateContainer says nothing.
func (*plugin) PostCreateContainer(context.Context, *api.PodSandbox, *api.Container) error {
	return nil
}

// StartContainer says nothing.
func (*plugin) StartContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }

// PostStartContainer says nothing.
func (*plugin) PostStartContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }

// UpdateContainer says nothing.
func (*plugin) UpdateContainer(context.Context, *api.PodSandbox, *api.Container, *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

// PostUpdateContainer says nothing.
func (*plugin) PostUpdateContainer(context.Context, *api.PodSandbox, *api.Container) error {
	return nil
}

// StopContainer says nothing.
func (*plugin) StopContainer(context.Context, *api.PodSandbox, *api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

// RemoveContainer says nothing.
func (*plugin) RemoveContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }

// bare is the plugin's service without NRI's stub and multiplexer.
type bare struct {
	api.PluginService
	plugin *plugin
}

// CreateContainer answers as the plugin does.
func (b bare) CreateContainer(context.Context, *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	return &api.CreateContainerResponse{Adjust: b.plugin.adjustment()}, nil
}

// serveFloor serves one connection: the least that a call to another process costs with this protocol.
func (p *plugin) serveFloor(ctx context.Context) error {
	const inherited = 3
	f := os.NewFile(inherited, "floor")
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	srv, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	api.RegisterPluginService(srv, bare{plugin: p})
	return srv.Serve(ctx, nrinet.NewConnListener(conn))
}
