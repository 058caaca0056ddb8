package isolation

import (
	"context"
	"net"
	"testing"

	"github.com/containerd/nri/pkg/api"
	nrinet "github.com/containerd/nri/pkg/net"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// served returns a client of a ttrpc server that has these methods of NRI's plugin service and no other.
func served(t *testing.T, methods map[string]ttrpc.Method) api.PluginService {
	t.Helper()
	local, file, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	peer, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	server.RegisterService("nri.pkg.api.v1alpha1.Plugin", &ttrpc.ServiceDesc{Methods: methods})
	go func() { _ = server.Serve(context.WithoutCancel(t.Context()), nrinet.NewConnListener(peer)) }() // ends with Close
	client := ttrpc.NewClient(local)
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return newEventFallback(api.NewPluginClient(client), func() string { return "" })
}

func TestAMissingMethodIsNotInterestedAndNoFailure(t *testing.T) {
	t.Parallel()
	p := served(t, map[string]ttrpc.Method{"Shutdown": func(context.Context, func(any) error) (any, error) { return &api.Empty{}, nil }})
	ctx := t.Context()
	if err := allEvents(ctx, p); err != nil {
		t.Error(err)
	}
	calls := map[string]func() (any, error){
		"Configure":        func() (any, error) { return p.Configure(ctx, &api.ConfigureRequest{}) },
		"CreateContainer":  func() (any, error) { return p.CreateContainer(ctx, &api.CreateContainerRequest{}) },
		"UpdateContainer":  func() (any, error) { return p.UpdateContainer(ctx, &api.UpdateContainerRequest{}) },
		"StopContainer":    func() (any, error) { return p.StopContainer(ctx, &api.StopContainerRequest{}) },
		"UpdatePodSandbox": func() (any, error) { return p.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{}) },
		"ValidateContainerAdjustment": func() (any, error) {
			return p.ValidateContainerAdjustment(ctx, &api.ValidateContainerAdjustmentRequest{})
		},
	}
	for name, call := range calls {
		if reply, err := call(); err != nil || reply == nil {
			t.Errorf("%s: %v, %v", name, reply, err)
		}
	}
	state := []*api.PodSandbox{{Id: "a"}, {Id: "b"}}
	if updates, err := synchronize(ctx, p, state, nil, 10); err != nil || len(updates) != 0 {
		t.Errorf("Synchronize in parts: %v, %v", updates, err)
	}
}

func TestAnErrorOfAHandlerIsNoMissingMethod(t *testing.T) {
	t.Parallel()
	for _, answer := range []error{status.Error(codes.NotFound, "method of payment"), status.Error(codes.Unimplemented, "no such GPU")} {
		p := served(t, map[string]ttrpc.Method{"CreateContainer": func(context.Context, func(any) error) (any, error) { return nil, answer }})
		if _, err := p.CreateContainer(t.Context(), &api.CreateContainerRequest{}); status.Code(err) != status.Code(answer) {
			t.Errorf("got %v, want %v", err, answer)
		}
	}
}
