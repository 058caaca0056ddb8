package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// Each of these handles one event.
type (
	runPod        struct{ stub.RunPodInterface }
	updatePod     struct{ stub.UpdatePodInterface }
	postUpdatePod struct{ stub.PostUpdatePodInterface }
	stopPod       struct{ stub.StopPodInterface }
	removePod     struct{ stub.RemovePodInterface }
	createCtr     struct{ stub.CreateContainerInterface }
	postCreateCtr struct {
		stub.PostCreateContainerInterface
	}
	startCtr     struct{ stub.StartContainerInterface }
	postStartCtr struct {
		stub.PostStartContainerInterface
	}
	updateCtr     struct{ stub.UpdateContainerInterface }
	postUpdateCtr struct {
		stub.PostUpdateContainerInterface
	}
	stopCtr     struct{ stub.StopContainerInterface }
	removeCtr   struct{ stub.RemoveContainerInterface }
	validateAdj struct {
		stub.ValidateContainerAdjustmentInterface
	}
	configureAndOne struct {
		stub.ConfigureInterface
		stub.RemovePodInterface
	}
)

// spyLogger remembers what the stub says about itself.
type spyLogger struct{ said []string }

func (s *spyLogger) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}
func (s *spyLogger) Debugf(_ context.Context, format string, a ...any) { s.say(format, a...) }
func (s *spyLogger) Infof(_ context.Context, format string, a ...any)  { s.say(format, a...) }
func (s *spyLogger) Warnf(_ context.Context, format string, a ...any)  { s.say(format, a...) }
func (s *spyLogger) Errorf(_ context.Context, format string, a ...any) { s.say(format, a...) }

func TestHandledEventsAreThoseOfTheStub(t *testing.T) {
	t.Parallel()
	for _, impl := range []any{
		runPod{},
		updatePod{},
		postUpdatePod{},
		stopPod{},
		removePod{},
		createCtr{},
		postCreateCtr{},
		startCtr{},
		postStartCtr{},
		updateCtr{},
		postUpdateCtr{},
		stopCtr{},
		removeCtr{},
		validateAdj{},
		configureAndOne{},
	} {
		t.Run(fmt.Sprintf("%T", impl), func(t *testing.T) {
			t.Parallel()
			var spy spyLogger
			if _, err := stub.New(impl, stub.WithPluginName("a"), stub.WithPluginIdx("00"), stub.WithLogger(&spy)); err != nil {
				t.Fatal(err)
			}
			mask := handledEvents(impl)
			if want := "handles " + mask.PrettyString() + ")"; !strings.Contains(strings.Join(spy.said, "\n"), want) {
				t.Errorf("stub says %q, not %q", spy.said, want)
			}
			if names := strings.Join(eventNames(mask), ","); names != mask.PrettyString() {
				t.Errorf("names %q, want %q", names, mask.PrettyString())
			}
		})
	}
}

func TestServeRefusesWhatHandlesNoEvent(t *testing.T) {
	t.Parallel()
	for _, impl := range []any{nil, struct{}{}, struct{ stub.ConfigureInterface }{}} {
		if err := Serve(impl); err == nil || !strings.Contains(err.Error(), "implements no event handler") {
			t.Errorf("%T: got %v", impl, err)
		}
	}
}

func TestAnErrorBecomesWhatTheOtherEndMaySee(t *testing.T) {
	t.Parallel()
	plain := errors.New("broken")
	reply := &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Annotations: map[string]string{"a": "b"}}}
	for name, tt := range map[string]struct {
		err           error
		hosted, plain codes.Code // codes.OK: no error, an empty answer
	}{
		"error":                  {plain, codes.Unknown, codes.Unknown},
		"status":                 {status.Error(codes.Internal, "x"), codes.Internal, codes.Internal},
		"unimplemented":          {status.Error(codes.Unimplemented, "x"), codes.Unknown, codes.Unknown},
		"wrapped unimplemented":  {fmt.Errorf("x: %w", status.Error(codes.Unimplemented, "x")), codes.Unknown, codes.Unknown},
		"rejection":              {Reject("full"), codes.PermissionDenied, codes.PermissionDenied},
		"wrapped rejection":      {fmt.Errorf("x: %w", Reject("full")), codes.PermissionDenied, codes.PermissionDenied},
		"not interested":         {NotInterested(Pod), codes.Aborted, codes.OK},
		"wrapped not interested": {fmt.Errorf("x: %w", NotInterested(Pod)), codes.Aborted, codes.OK},
		"several not interested": {NotInterestedIn([]string{"p"}, []string{"c"}), codes.Aborted, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for hosted, want := range map[bool]codes.Code{true: tt.hosted, false: tt.plain} {
				i := &interceptor{hosted: hosted}
				got, err := i.answer(reply, tt.err)
				code := status.Code(err)
				if err != nil && code == codes.OK {
					code = codes.Unknown
				}
				if code != want {
					t.Errorf("hosted %v: got %v, want %v", hosted, err, want)
				}
				if want == codes.OK {
					r, ok := got.(*api.CreateContainerResponse)
					if !ok || r.GetAdjust() != nil {
						t.Errorf("hosted %v: answer %v", hosted, got)
					}
				}
			}
		})
	}
}

func TestShutdownIsCalledOnce(t *testing.T) {
	t.Parallel()
	s := &shutdownSpy{}
	i := &interceptor{impl: s}
	for range 3 {
		i.callShutdown(t.Context())
	}
	if s.calls != 1 {
		t.Errorf("called %d times", s.calls)
	}
}

type shutdownSpy struct{ calls int }

func (s *shutdownSpy) Shutdown(context.Context) { s.calls++ }

func TestVerdictsSurviveTheWay(t *testing.T) {
	t.Parallel()
	for _, err := range []error{Reject("no GPU left"), NotInterested(Container), NotInterestedIn([]string{"a", "b"}, nil)} {
		sent, ok := status.FromError(err)
		if !ok {
			t.Fatalf("%T has no status", err)
		}
		if diff := cmp.Diff(err, wire.Decode(sent.Err())); diff != "" {
			t.Error(diff)
		}
	}
}

// configurable takes two configurations: a good one and one that subscribes to what it does not handle.
type configurable struct {
	stub.RemovePodInterface
	got []string
}

func (c *configurable) Configure(_ context.Context, config, _, _ string) (api.EventMask, error) {
	c.got = append(c.got, config)
	switch config {
	case "too much":
		return api.ValidEvents, nil
	case "wrong":
		return 0, errors.New("wrong config")
	}
	return 0, nil
}

func TestOnlyTheFirstConfigureIsTheStubs(t *testing.T) {
	t.Parallel()
	impl := &configurable{}
	i := &interceptor{impl: impl, hosted: true}
	stubs := 0
	configure := func(config string) (*api.ConfigureResponse, error) {
		reply, err := i.unary(t.Context(),
			func(m any) error {
				req, ok := m.(*api.ConfigureRequest)
				if !ok {
					return fmt.Errorf("unmarshal into a %T", m)
				}
				req.Config = config
				return nil
			},
			&ttrpc.UnaryServerInfo{FullMethod: "/nri.pkg.api.v1alpha1.Plugin/Configure"},
			func(context.Context, func(any) error) (any, error) {
				stubs++
				return &api.ConfigureResponse{}, nil
			})
		r, ok := reply.(*api.ConfigureResponse)
		if err == nil && !ok {
			t.Fatalf("reply is a %T", reply)
		}
		return r, err
	}
	if _, err := configure("first"); err != nil {
		t.Error(err)
	}
	reply, err := configure("second")
	if err != nil {
		t.Fatal(err)
	}
	if got := api.EventMask(reply.GetEvents()); got.PrettyString() != "RemovePodSandbox" {
		t.Errorf("events %s", got.PrettyString())
	}
	if _, err := configure("wrong"); err == nil || err.Error() != "wrong config" {
		t.Errorf("got %v", err)
	}
	if _, err := configure("too much"); err == nil || !strings.Contains(err.Error(), "no handler for") {
		t.Errorf("got %v", err)
	}
	if stubs != 1 {
		t.Errorf("the stub was asked %d times", stubs)
	}
	if diff := cmp.Diff([]string{"second", "wrong", "too much"}, impl.got); diff != "" {
		t.Error(diff)
	}
}

func TestAPluginWithoutItsConnectionIsNotHealthy(t *testing.T) {
	t.Parallel()
	c := &control{impl: struct{}{}, connected: func() bool { return false }}
	if err := c.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "connection is closed") {
		t.Errorf("got %v", err)
	}
}

func TestALogLevelReachesTheAuthorsLogger(t *testing.T) {
	t.Parallel()
	var level slog.LevelVar
	c := &control{logger: newLogger(io.Discard, hclog.Trace), level: &level}
	for name, want := range map[string]slog.Level{
		"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		if err := c.SetLogLevel(t.Context(), name); err != nil || level.Level() != want {
			t.Errorf("%s: level %s, %v", name, level.Level(), err)
		}
	}
}
