package integration_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/otelttrpc"
	"github.com/containerd/ttrpc"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// receiver is an OTLP collector.
type receiver struct {
	URL string

	mu    sync.Mutex
	spans []*otlp.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var export collector.ExportTraceServiceRequest
		if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &export) != nil {
			http.Error(w, "not an export", http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range export.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				r.spans = append(r.spans, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// described are the spans of a trace: their names and what they tell, children below their parents.
func (r *receiver) described(trace string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[string]string{}
	for _, s := range r.spans {
		names[string(s.GetSpanId())] = s.GetName()
	}
	var out []string
	for _, s := range r.spans {
		if fmt.Sprintf("%x", s.GetTraceId()) != trace {
			continue
		}
		said := map[string]string{}
		for _, a := range s.GetAttributes() {
			if key := a.GetKey(); strings.HasPrefix(key, "nri") || strings.HasPrefix(key, "k8s") {
				said[key] = a.GetValue().GetStringValue()
			}
		}
		parent := names[string(s.GetParentSpanId())]
		if parent == "" {
			parent = "the runtime"
		}
		var words []string
		for _, key := range slices.Sorted(maps.Keys(said)) {
			words = append(words, key+"="+said[key])
		}
		out = append(out, fmt.Sprintf("%s below %s: %s", s.GetName(), parent, strings.Join(words, " ")))
	}
	slices.Sort(out)
	return out
}

func TestAnEventIsASpanInTheRuntimesTraceAndEachPluginsPartAChild(t *testing.T) {
	t.Parallel()
	spans := newReceiver(t)
	// A runtime that traces its calls, as containerd does.
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	client := otelttrpc.UnaryClientInterceptor(otelttrpc.WithTracerProvider(provider), otelttrpc.WithPropagators(propagation.TraceContext{}))
	rt := harness.NewRuntime(t, adaptation.WithTTRPCOptions([]ttrpc.ClientOpts{ttrpc.WithUnaryClientInterceptor(client)}, nil))
	sup := harness.StartSupervisor(t, rt.Config(teams+"\n  tracing: {endpoint: \""+spans.URL+"\", ratio: 0}", gpuEnv(t)))
	rt.WaitSync()
	sup.Ready(1, "gpu-env")

	sampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample())).Tracer("test")
	create := func(name, label string) (trace string) {
		t.Helper()
		ctx, span := sampled.Start(t.Context(), name)
		defer span.End()
		pod := harness.Pod("default", name, "accelerator", label)
		if err := rt.RunPod(ctx, pod); err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Create(ctx, pod, harness.Container(pod, "main")); err != nil {
			t.Fatal(err)
		}
		return span.SpanContext().TraceID().String()
	}
	selected, other := create("selected", "gpu"), create("other", "none")
	act(t, sup, "trip", "gpu-env")
	refused := create("refused", "gpu")
	created(t, rt, harness.Pod("default", "unsampled", "accelerator", "gpu"))

	const event = "k8s.container.name=main k8s.namespace.name=default k8s.pod.name=%s nri.event=CreateContainer"
	want := func(trace string, lines ...string) {
		t.Helper()
		var got []string
		harness.Eventually(t, "the spans "+strings.Join(lines, "; "), func() bool {
			got = spans.described(trace)
			return !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(got, line) })
		})
		for _, line := range got {
			if strings.HasPrefix(line, "plugin ") && !slices.Contains(lines, line) {
				t.Errorf("more than was asked for: %s", line)
			}
		}
	}
	want(selected, "CreateContainer below the runtime: "+fmt.Sprintf(event, "selected"),
		"plugin gpu-env below CreateContainer: nri.event=CreateContainer nri_supervisor.outcome=success nri_supervisor.plugin=gpu-env nri_supervisor.team=ml-infra")
	want(refused, "CreateContainer below the runtime: "+fmt.Sprintf(event, "refused"),
		"plugin gpu-env below CreateContainer: nri.event=CreateContainer nri_supervisor.plugin=gpu-env nri_supervisor.reason=breaker_open nri_supervisor.team=ml-infra")
	want(other, "nri.pkg.api.v1alpha1.Plugin/CreateContainer below the runtime: ")
	spans.mu.Lock()
	defer spans.mu.Unlock()
	for _, s := range spans.spans {
		for _, a := range s.GetAttributes() {
			if a.GetValue().GetStringValue() == "unsampled" {
				t.Errorf("a span of what the runtime did not sample, at ratio 0: %v", s)
			}
		}
	}
}
