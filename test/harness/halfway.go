package harness

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
)

// Halfway is a runtime that takes a plugin's registration up to some point and then goes wrong. The zero value takes the registration and then does nothing more.
type Halfway struct {
	// Silent never answers anything.
	Silent bool
	// Refuse is the error that RegisterPlugin gets.
	Refuse error
	// CloseAfterRegister closes the connection instead of configuring the plugin.
	CloseAfterRegister bool
	// Configure goes on to Configure. The events that the plugin then subscribes to are given to it, and the connection is closed if it returns false.
	Configure func(events api.EventMask) (proceed bool)
	// CloseAfterConfigure closes the connection instead of synchronizing the plugin.
	CloseAfterConfigure bool
}

// Serve is such a runtime on one connection. It returns when the connection is closed, by either side.
func (h Halfway) Serve(tb testing.TB, c net.Conn) {
	tb.Helper()
	defer func() { _ = c.Close() }()
	if h.Silent {
		_, _ = c.Read(make([]byte, 1)) // what came first
		for {
			if _, err := c.Read(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}
	mux := multiplex.Multiplex(c, multiplex.WithBlockedRead()) // what arrives before its listener is there is lost
	defer func() { _ = mux.Close() }()
	conn, err := mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		tb.Errorf("open the plugin's service: %v", err)
		return
	}
	closed := make(chan struct{})
	client := ttrpc.NewClient(conn, ttrpc.WithOnClose(func() { close(closed) }))
	defer func() { _ = client.Close() }()
	l, err := mux.Listen(multiplex.RuntimeServiceConn)
	if err != nil {
		tb.Errorf("listen for the plugin: %v", err)
		return
	}
	srv, err := ttrpc.NewServer()
	if err != nil {
		tb.Errorf("serve the plugin: %v", err)
		return
	}
	defer func() { _ = srv.Close() }()
	reg := &registrar{refuse: h.Refuse, done: make(chan struct{})}
	api.RegisterRuntimeService(srv, reg)
	go func() { _ = srv.Serve(context.Background(), l) }() // ends with the connection
	mux.Unblock()
	select {
	case <-reg.done:
	case <-closed:
		return
	}
	if h.CloseAfterRegister {
		return
	}
	if h.Configure != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		rpl, err := api.NewPluginClient(client).Configure(ctx, &api.ConfigureRequest{RuntimeName: "halfway", RuntimeVersion: "1.0.0", RequestTimeout: 2000, RegistrationTimeout: 5000})
		cancel()
		if err != nil {
			return
		}
		if !h.Configure(api.EventMask(rpl.GetEvents())) || h.CloseAfterConfigure {
			return
		}
	}
	<-closed
}

// registrar is the runtime's service.
type registrar struct {
	refuse error
	done   chan struct{}
}

// RegisterPlugin takes the registration, once.
func (r *registrar) RegisterPlugin(context.Context, *api.RegisterPluginRequest) (*api.Empty, error) {
	if r.refuse != nil {
		return nil, r.refuse
	}
	defer close(r.done)
	return &api.Empty{}, nil
}

// UpdateContainers takes none.
func (*registrar) UpdateContainers(context.Context, *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	return &api.UpdateContainersResponse{}, nil
}
