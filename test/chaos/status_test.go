package chaos_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// TestNoStatusOfAPluginReachesTheRuntime has a plugin fail with each gRPC code at each event. The runtime treats late, DeadlineExceeded, Unimplemented and other errors each
// differently and mostly badly, so that none of them may get there.
func TestNoStatusOfAPluginReachesTheRuntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newStocks(t), sick{name: "sick", extra: "breaker: {consecutiveFailures: 100000, failureRatio: {threshold: 1}}"})
	var events []string
	for _, a := range everywhere("x") {
		events = append(events, a[:len(a)-2])
	}
	n := 0
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		for _, event := range events {
			pod := harness.Pod("default", fmt.Sprintf("%s-%s", c, event), "healthy", "one", "sick", "sick")
			pod.Annotations["chaos.nri-supervisor.dev/"+event] = "status:" + c.String()
			p := &podLife{pod: pod, ctr: harness.Container(pod, "main"), class: "one", sick: "sick", live: true}
			w.pods = append(w.pods, p)
			ctx := t.Context()
			w.must(w.rt.RunPod(ctx, proto.CloneOf(p.pod)))
			got, err := w.rt.Create(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr))
			w.must(err)
			want, err := w.stocks["one"].Create(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr))
			w.must(err)
			w.strip(p, got.GetAdjust())
			w.same(p, "CreateContainer", got, want)
			if failed := event == "CreateContainer"; p.works == failed {
				t.Errorf("%s at %s: the plugin's work on the container is there: %v (%s)", c, event, p.works, p.why)
			}
			w.must(w.rt.StartContainer(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr)))
			w.update(p)
			w.remove(p)
			n++
		}
	}
	w.serving("sick")
	w.truth("sick")
	w.neverSilent()
	w.neverLate()
	for _, event := range events {
		bad := w.sup.Lines(func(l map[string]any) bool {
			return l["msg"] == "plugin's work is missing" && l["plugin"] == "sick" && l["event"] == event && (l["reason"] == "error" || l["reason"] == "timeout") &&
				strings.HasSuffix(fmt.Sprint(l["pod"]), "-"+event)
		})
		if len(bad) != int(codes.Unauthenticated) { // one for each code but OK
			t.Errorf("%d failures of the plugin at %s, want %d", len(bad), event, codes.Unauthenticated)
		}
	}
	if s := w.sup.Starts("sick"); s != 1 {
		t.Errorf("the plugin was started %d times", s)
	}
	t.Logf("%d pods", n)
	w.nothingLeft()
}
