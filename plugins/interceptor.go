package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// interceptor stands between ttrpc and NRI's stub. It gives errors of handlers their meaning on the wire, calls Shutdown
// once, and handles a repeated Configure, which the stub answers twice and then blocks on.
type interceptor struct {
	impl   any
	hosted bool // nri-supervisor is at the other end

	configured atomic.Bool
	shutdown   sync.Once
}

func (i *interceptor) unary(
	ctx context.Context, unmarshal ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method,
) (any, error) {
	switch info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:] {
	case "Shutdown":
		i.callShutdown(ctx)
		return &api.Empty{}, nil
	case "Configure":
		if i.configured.Swap(true) {
			return i.reconfigure(ctx, unmarshal)
		}
	}
	reply, err := method(ctx, unmarshal)
	return i.answer(reply, err)
}

// callShutdown calls the plugin's Shutdown handler unless it was called before.
func (i *interceptor) callShutdown(ctx context.Context) {
	i.shutdown.Do(func() {
		if s, ok := i.impl.(stub.ShutdownInterface); ok {
			s.Shutdown(ctx)
		}
	})
}

func (i *interceptor) reconfigure(ctx context.Context, unmarshal ttrpc.Unmarshaler) (any, error) {
	var req api.ConfigureRequest
	if err := unmarshal(&req); err != nil {
		return nil, err
	}
	handled := handledEvents(i.impl)
	events := handled
	if c, ok := i.impl.(stub.ConfigureInterface); ok {
		mask, err := c.Configure(ctx, req.GetConfig(), req.GetRuntimeName(), req.GetRuntimeVersion())
		if err != nil {
			return i.answer(nil, err)
		}
		if mask != 0 {
			events = mask
		}
	}
	if extra := events &^ handled; extra != 0 {
		return nil, fmt.Errorf("configure: plugin subscribes to events that it has no handler for: %s", extra.PrettyString())
	}
	return &api.ConfigureResponse{Events: int32(events)}, nil
}

// answer turns a handler's error into what the other end may see.
func (i *interceptor) answer(reply any, err error) (any, error) {
	if err == nil {
		return reply, nil
	}
	if r, ok := errors.AsType[*wire.RejectError](err); ok {
		return nil, r.GRPCStatus().Err()
	}
	if n, ok := errors.AsType[*wire.NotInterestedError](err); ok {
		if i.hosted {
			return nil, n.GRPCStatus().Err()
		}
		if m, ok := reply.(proto.Message); ok {
			return m.ProtoReflect().New().Interface(), nil
		}
		return reply, nil
	}
	// A runtime reads this code as "old plugin" and delivers the event a second time.
	if st, ok := status.FromError(err); ok && st.Code() == codes.Unimplemented {
		return nil, status.Error(codes.Unknown, st.Message())
	}
	return nil, err
}
