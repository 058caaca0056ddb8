package tracing

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/otelttrpc"
	"github.com/containerd/ttrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

const (
	// scope names the code that makes the spans.
	scope = "github.com/nri-supervisor/nri-supervisor"
	// exportLimit bounds one attempt to deliver a batch; ten seconds is OTLP's default: https://opentelemetry.io/docs/specs/otel/protocol/exporter.
	exportLimit = 10 * time.Second
	// delay is how long a span waits for others at most.
	delay = 2 * time.Second
)

// Options say where spans go. Endpoint is required.
type Options struct {
	// Endpoint is the URL of the collector, http or https; without a path, /v1/traces is meant.
	Endpoint string
	// Ratio is the share of the runtime's requests that are sampled, 0 to 1, where the runtime does not trace them itself.
	Ratio float64
	// Version is that of this program, Node the name of the node.
	Version, Node string
	// OnProblem is told of spans that could not be delivered. It must not block. Nil: nobody is.
	OnProblem func(error)
}

// Tracing makes and exports spans. It is a [supervisor.Tracer].
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Open prepares the export. Nothing is connected before there is a span.
func Open(ctx context.Context, o Options) (*Tracing, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint), otlptracehttp.WithTimeout(exportLimit))
	if err != nil {
		return nil, fmt.Errorf("prepare the export of spans to %q: %w", o.Endpoint, err)
	}
	if o.OnProblem == nil {
		o.OnProblem = func(error) {}
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Ratio))),
		sdktrace.WithBatcher(reporting{exporter, o.OnProblem}, sdktrace.WithBatchTimeout(delay)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "nri-supervisor"), attribute.String("service.version", o.Version), attribute.String("host.name", o.Node),
		)),
	)
	return &Tracing{provider: provider, tracer: provider.Tracer(scope)}, nil
}

// reporting tells of what could not be exported, since the SDK would tell a logger that is one for the whole process.
type reporting struct {
	sdktrace.SpanExporter
	problem func(error)
}

// ExportSpans exports.
func (r reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil {
		r.problem(fmt.Errorf("%d spans are lost: %w", len(spans), err))
	}
	return nil
}

// ServerOptions make the server that the runtime calls begin a span for each request, as a part of the runtime's trace if there is one.
func (t *Tracing) ServerOptions() []ttrpc.ServerOpt {
	return []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(otelttrpc.UnaryServerInterceptor(
		otelttrpc.WithTracerProvider(t.provider), otelttrpc.WithPropagators(propagation.TraceContext{}),
	))}
}

// Event names the request's span. It returns nil when that is not sampled.
func (t *Tracing) Event(ctx context.Context, e supervisor.TracedEvent) supervisor.EventTrace {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return nil
	}
	span.SetName(e.Event)
	span.SetAttributes(attribute.String("nri.event", e.Event), attribute.String("k8s.namespace.name", e.Namespace), attribute.String("k8s.pod.name", e.Pod))
	if e.Container != "" {
		span.SetAttributes(attribute.String("k8s.container.name", e.Container))
	}
	// The children outlive the request, and its context's end is not theirs.
	return eventTrace{t.tracer, trace.ContextWithSpanContext(context.Background(), span.SpanContext()), e.Event}
}

// eventTrace is the trace of one event.
type eventTrace struct {
	tracer trace.Tracer
	parent context.Context //nolint:containedctx // it carries the span that the children belong to, and nothing else
	event  string
}

// Call begins a child.
func (e eventTrace) Call(plugin, team string) func(supervisor.TracedResult) {
	_, span := e.tracer.Start(e.parent, "plugin "+plugin, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("nri.event", e.event), attribute.String("nri_supervisor.plugin", plugin), attribute.String("nri_supervisor.team", team),
	))
	return func(r supervisor.TracedResult) {
		if r.Outcome != "" {
			span.SetAttributes(attribute.String("nri_supervisor.outcome", r.Outcome))
		}
		if r.Reason != "" {
			span.SetAttributes(attribute.String("nri_supervisor.reason", r.Reason))
			span.SetStatus(codes.Error, r.Reason)
		}
		span.End()
	}
}

// Close delivers what is left and ends the export, until ctx ends.
func (t *Tracing) Close(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("end the export of spans: %w", err)
	}
	return nil
}
