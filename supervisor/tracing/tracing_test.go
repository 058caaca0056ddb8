package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/tracing"
)

func open(t *testing.T, endpoint string, problem func(error)) *tracing.Tracing {
	t.Helper()
	tr, err := tracing.Open(t.Context(), tracing.Options{Endpoint: endpoint, Ratio: 1, OnProblem: problem})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// traced is a context with a span of another provider.
func traced(t *testing.T, sampler trace.Sampler) context.Context {
	t.Helper()
	ctx, span := trace.NewTracerProvider(trace.WithSampler(sampler)).Tracer("test").Start(t.Context(), "request")
	t.Cleanup(func() { span.End() })
	return ctx
}

func TestSpansThatTheCollectorRefusesAreToldOf(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		http.Error(w, "no", http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	problems := make(chan error, 16)
	tr := open(t, server.URL+"/otlp", func(err error) { problems <- err })
	event := tr.Event(traced(t, trace.AlwaysSample()), supervisor.TracedEvent{Event: "CreateContainer", Namespace: "n", Pod: "p", Container: "c"})
	event.Call("gpu-env", "ml")(supervisor.TracedResult{Outcome: "timeout", Reason: "timeout"})
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path := <-asked; path != "/otlp" {
		t.Errorf("the collector was asked for %q", path)
	}
	if err := <-problems; !strings.Contains(err.Error(), "1 spans are lost") {
		t.Errorf("problem %v", err)
	}
}

func TestACollectorThatHangsDoesNotHoldTheEnd(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	tr := open(t, server.URL, nil)
	tr.Event(traced(t, trace.AlwaysSample()), supervisor.TracedEvent{Event: "RunPodSandbox"}).Call("p", "t")(supervisor.TracedResult{Outcome: "success"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tr.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("closed: %v", err)
	}
}

func TestARequestThatIsNotSampledHasNoTrace(t *testing.T) {
	t.Parallel()
	tr := open(t, "http://127.0.0.1:1", nil)
	for name, ctx := range map[string]context.Context{"no span": t.Context(), "not sampled": traced(t, trace.NeverSample())} {
		if e := tr.Event(ctx, supervisor.TracedEvent{}); e != nil {
			t.Errorf("%s: %v", name, e)
		}
	}
}
