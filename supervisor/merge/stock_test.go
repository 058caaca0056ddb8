package merge_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/adaptation/builtin"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// attached is a plugin that is attached directly to a stock adaptation and
// always replies the same.
type attached struct {
	name   string
	create *api.CreateContainerResponse
	update *api.UpdateContainerResponse
	stop   *api.StopContainerResponse
	// react, reactUpdate and reactStop make the reply out of what the plugin sees, instead of create, update and stop.
	react       func(*api.CreateContainerRequest) *api.CreateContainerResponse
	reactUpdate func(*api.UpdateContainerRequest) *api.UpdateContainerResponse
	reactStop   func(*api.StopContainerRequest) *api.StopContainerResponse
}

// outcome is what a stock adaptation made of an event.
type outcome struct {
	create *api.CreateContainerResponse
	update *api.UpdateContainerResponse
	stop   *api.StopContainerResponse
	// viewsCreate and viewsUpdate are what each plugin saw, and one more at the end.
	viewsCreate []*api.CreateContainerRequest
	viewsUpdate []*api.UpdateContainerRequest
	owners      *api.OwningPlugins
	err         error
}

// stock sends one event, the request that is not nil, through NRI's
// adaptation as it is, with plugins attached in the order given.
func stock(tb testing.TB, plugins []attached, create *api.CreateContainerRequest, update *api.UpdateContainerRequest, stop *api.StopContainerRequest) *outcome {
	tb.Helper()
	out := &outcome{}
	var builtins []*builtin.BuiltinPlugin
	for i, p := range append(slices.Clip(plugins), attached{name: "probe"}) {
		builtins = append(builtins, &builtin.BuiltinPlugin{
			Index: fmt.Sprintf("%03d", i),
			Base:  p.name,
			Handlers: builtin.BuiltinHandlers{
				CreateContainer: func(_ context.Context, req *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
					out.viewsCreate = append(out.viewsCreate, proto.CloneOf(req))
					if p.react != nil {
						return copyOrNil(p.react(req)), nil
					}
					return copyOrNil(p.create), nil
				},
				UpdateContainer: func(_ context.Context, req *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
					out.viewsUpdate = append(out.viewsUpdate, proto.CloneOf(req))
					if p.reactUpdate != nil {
						return copyOrNil(p.reactUpdate(req)), nil
					}
					return copyOrNil(p.update), nil
				},
				StopContainer: func(_ context.Context, req *api.StopContainerRequest) (*api.StopContainerResponse, error) {
					if p.reactStop != nil {
						return copyOrNil(p.reactStop(req)), nil
					}
					return copyOrNil(p.stop), nil
				},
			},
		})
	}
	builtins = append(builtins, &builtin.BuiltinPlugin{
		Index: "999", Base: "owners",
		Handlers: builtin.BuiltinHandlers{
			ValidateContainerAdjustment: func(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
				out.owners = proto.CloneOf(req.GetOwners())
				return nil
			},
		},
	})
	a, err := adaptation.New("stock", "1",
		func(context.Context, adaptation.SyncCB) error { return nil },
		func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
		adaptation.WithPluginPath("/proc/self/no-plugins"),
		adaptation.WithDisabledExternalConnections(),
		adaptation.WithBuiltinPlugins(builtins...),
	)
	if err != nil {
		tb.Fatal(err)
	}
	if err := a.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(a.Stop)
	switch {
	case create != nil:
		out.create, out.err = a.CreateContainer(tb.Context(), proto.CloneOf(create))
	case update != nil:
		out.update, out.err = a.UpdateContainer(tb.Context(), proto.CloneOf(update))
	default:
		out.stop, out.err = a.StopContainer(tb.Context(), proto.CloneOf(stop))
	}
	return out
}

func copyOrNil[M any, P interface {
	*M
	proto.Message
}](m P) P {
	if m == nil {
		return nil
	}
	return proto.CloneOf(m)
}

// encode gives the one deterministic encoding that comparisons use.
func encode(tb testing.TB, m proto.Message) string {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}
