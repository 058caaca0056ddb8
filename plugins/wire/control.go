package wire

import (
	"context"
	"errors"
	"fmt"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// ServiceName is the full gRPC name of the control service.
	ServiceName = "nri_supervisor.plugin.v1.Control"

	methodDescribe    = "Describe"
	methodHealth      = "Health"
	methodSetLogLevel = "SetLogLevel"
	methodStop        = "Stop"

	keyVersion    = "version"
	keySDKVersion = "sdkVersion"
	keyNRIVersion = "nriVersion"
	keyEvents     = "events"
)

// Description is what a plugin says about itself. Empty fields are unknown.
type Description struct {
	// Version is the plugin's own, SDKVersion that of this module, NRIVersion that of the NRI module it is built with.
	Version, SDKVersion, NRIVersion string
	// Events are the NRI events that it has handlers for, by NRI's names, in NRI's order.
	Events []string
}

// Control is the control service, seen from either side.
type Control interface {
	// Describe says what the plugin is.
	Describe(ctx context.Context) (Description, error)
	// Health returns nil, or an *UnhealthyError from a plugin that is not well, or why it could not be asked.
	Health(ctx context.Context) error
	// SetLogLevel sets the level to log at: trace, debug, info, warn or error.
	SetLogLevel(ctx context.Context, level string) error
	// Stop asks the plugin to end. It returns at once, before the plugin ended.
	Stop(ctx context.Context) error
}

// UnhealthyError is the answer of a plugin that says it is not well.
type UnhealthyError struct {
	// Reason is the plugin's own text.
	Reason string
}

// Error returns the reason, marked as the plugin's.
func (e *UnhealthyError) Error() string { return "plugin is not healthy: " + e.Reason }

// Plugin is the control service as a go-plugin plugin. Impl is set in the plugin's process and nil in the supervisor's.
type Plugin struct {
	goplugin.NetRPCUnsupportedPlugin
	Impl Control
}

// GRPCServer registers the service in the plugin's process.
func (p *Plugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	if p.Impl == nil {
		return errors.New("register control service: no implementation")
	}
	s.RegisterService(serviceDesc(), p.Impl)
	return nil
}

// GRPCClient returns a Control that calls the plugin.
func (*Plugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}

// NewClient returns a Control that calls the plugin at the other end of conn.
func NewClient(conn grpc.ClientConnInterface) Control { return &client{conn: conn} }

func serviceDesc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*Control)(nil),
		Metadata:    "plugins/wire/control.go",
		Methods: []grpc.MethodDesc{
			method(methodDescribe, func(ctx context.Context, c Control, _ *emptypb.Empty) (proto.Message, error) {
				d, err := c.Describe(ctx)
				if err != nil {
					return nil, err
				}
				return encodeDescription(d)
			}),
			method(methodHealth, func(ctx context.Context, c Control, _ *emptypb.Empty) (proto.Message, error) {
				if err := c.Health(ctx); err != nil {
					reason := err.Error()
					if u, ok := errors.AsType[*UnhealthyError](err); ok {
						reason = u.Reason
					}
					if reason == "" {
						reason = "no reason given"
					}
					return wrapperspb.String(reason), nil
				}
				return wrapperspb.String(""), nil
			}),
			method(methodSetLogLevel, func(ctx context.Context, c Control, level *wrapperspb.StringValue) (proto.Message, error) {
				return &emptypb.Empty{}, c.SetLogLevel(ctx, level.GetValue())
			}),
			method(methodStop, func(ctx context.Context, c Control, _ *emptypb.Empty) (proto.Message, error) {
				return &emptypb.Empty{}, c.Stop(ctx)
			}),
		},
	}
}

// message is a pointer to M that is a protobuf message.
type message[M any] interface {
	*M
	proto.Message
}

// method describes one unary method whose request is an M.
func method[M any, P message[M]](name string, call func(context.Context, Control, P) (proto.Message, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			req := P(new(M))
			if err := decode(req); err != nil {
				return nil, err
			}
			c, ok := srv.(Control)
			if !ok {
				return nil, fmt.Errorf("call %q: %T is not a control service", name, srv)
			}
			if interceptor == nil {
				return call(ctx, c, req)
			}
			info := &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod(name)}
			return interceptor(ctx, req, info, func(ctx context.Context, _ any) (any, error) { return call(ctx, c, req) })
		},
	}
}

func fullMethod(name string) string { return "/" + ServiceName + "/" + name }

// client calls the control service of a plugin.
type client struct{ conn grpc.ClientConnInterface }

func (c *client) invoke(ctx context.Context, name string, req, reply proto.Message) error {
	return c.conn.Invoke(ctx, fullMethod(name), req, reply)
}

func (c *client) Describe(ctx context.Context) (Description, error) {
	var reply structpb.Struct
	if err := c.invoke(ctx, methodDescribe, &emptypb.Empty{}, &reply); err != nil {
		return Description{}, err
	}
	return decodeDescription(&reply), nil
}

func (c *client) Health(ctx context.Context) error {
	var reply wrapperspb.StringValue
	if err := c.invoke(ctx, methodHealth, &emptypb.Empty{}, &reply); err != nil {
		return err
	}
	if reason := reply.GetValue(); reason != "" {
		return &UnhealthyError{Reason: reason}
	}
	return nil
}

func (c *client) SetLogLevel(ctx context.Context, level string) error {
	return c.invoke(ctx, methodSetLogLevel, wrapperspb.String(level), &emptypb.Empty{})
}

func (c *client) Stop(ctx context.Context) error {
	return c.invoke(ctx, methodStop, &emptypb.Empty{}, &emptypb.Empty{})
}

func encodeDescription(d Description) (*structpb.Struct, error) {
	events := make([]any, len(d.Events))
	for i, e := range d.Events {
		events[i] = e
	}
	return structpb.NewStruct(map[string]any{
		keyVersion: d.Version, keySDKVersion: d.SDKVersion, keyNRIVersion: d.NRIVersion, keyEvents: events,
	})
}

func decodeDescription(s *structpb.Struct) Description {
	f := s.GetFields()
	d := Description{
		Version:    f[keyVersion].GetStringValue(),
		SDKVersion: f[keySDKVersion].GetStringValue(),
		NRIVersion: f[keyNRIVersion].GetStringValue(),
	}
	for _, v := range f[keyEvents].GetListValue().GetValues() {
		d.Events = append(d.Events, v.GetStringValue())
	}
	return d
}
