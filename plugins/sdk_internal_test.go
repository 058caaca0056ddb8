package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/google/go-cmp/cmp"
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
