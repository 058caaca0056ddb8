package chaos_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// missedAnnotation names on a container the work that is missing from it.
const missedAnnotation = "nri-supervisor.dev/missed"

// podLife is one pod of the stream, with its one container.
type podLife struct {
	pod   *api.PodSandbox
	ctr   *api.Container
	class string
	sick  string // the sick plugin that it selects, or none
	works bool   // the sick plugin's work is on the container
	why   string // else why it is not
	live  bool
	asks  bool // it asks for a fault by itself
}

// stream runs n pods, chosen at random, through their lives, and checks each answer.
func (w *world) stream(phase string, n int) {
	w.t.Helper()
	for range n {
		who := ""
		if w.rng.IntN(5) < 2 {
			who = w.sick[w.rng.IntN(len(w.sick))]
		}
		p := w.create(phase, classes[w.rng.IntN(len(classes))], who)
		if w.rng.IntN(3) == 0 {
			w.update(p)
		}
		if w.rng.IntN(3) == 0 {
			w.remove(p)
		}
	}
}

// create runs a pod and creates and starts its container.
func (w *world) create(phase, class, who string) *podLife {
	w.t.Helper()
	return w.createAsking(phase, class, who, nil)
}

// createAsking is create for a pod that asks for faults by annotations: the action for each event.
func (w *world) createAsking(phase, class, who string, faults map[string]string) *podLife {
	w.t.Helper()
	labels := []string{"healthy", class}
	if who != "" {
		labels = append(labels, "sick", who)
	}
	p := &podLife{class: class, sick: who, live: true}
	p.pod = harness.Pod("default", fmt.Sprintf("%s-%d", phase, len(w.pods)), labels...)
	for event, action := range faults {
		p.pod.Annotations["chaos.nri-supervisor.dev/"+event] = action
	}
	p.ctr = harness.Container(p.pod, "main")
	w.pods = append(w.pods, p)
	ctx := w.t.Context()
	w.must(w.rt.RunPod(ctx, proto.CloneOf(p.pod)))
	begin := time.Now()
	got, err := w.rt.Create(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr))
	if took := time.Since(begin); who == "" {
		w.calm = append(w.calm, took)
	}
	w.must(err)
	want, err := w.stocks[class].Create(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr))
	w.must(err)
	if class == "all" && len(want.GetAdjust().GetMounts()) == 0 {
		w.t.Fatal("the stock runtime did not do the healthy plugins' work: nothing is compared")
	}
	w.strip(p, got.GetAdjust())
	w.same(p, "CreateContainer", got, want)
	w.must(w.rt.StartContainer(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr)))
	return p
}

// strip takes the sick plugin's part off an adjustment, so that what is left is the healthy ones', and remembers whether it was there.
func (w *world) strip(p *podLife, a *api.ContainerAdjustment) {
	w.t.Helper()
	rest := a.Env[:0]
	for _, e := range a.GetEnv() {
		if e.GetKey() == "CHAOS" && e.GetValue() == p.sick && p.sick != "" {
			p.works = true
			continue
		}
		rest = append(rest, e)
	}
	a.Env = rest
	note, noted := a.GetAnnotations()[missedAnnotation]
	delete(a.GetAnnotations(), missedAnnotation)
	switch {
	case p.sick == "" && noted:
		w.t.Errorf("pod %s: %s=%q, and no sick plugin selected it", p.pod.GetName(), missedAnnotation, note)
	case p.sick == "":
	case !p.works && !noted, p.works && noted && !w.validators[p.sick]: // of a validator the one can be there and its judgement missing
		w.t.Errorf("pod %s: the work of %s is there: %v; %s=%q", p.pod.GetName(), p.sick, p.works, missedAnnotation, note)
	case noted:
		name, why, _ := strings.Cut(note, "=")
		if name != p.sick || why == "" {
			w.t.Errorf("pod %s: %s=%q, want %s=REASON", p.pod.GetName(), missedAnnotation, note, p.sick)
		}
		p.why = why
	}
}

// same compares two answers in deterministic encoding.
func (w *world) same(p *podLife, what string, got, want proto.Message) {
	w.t.Helper()
	encode := proto.MarshalOptions{Deterministic: true}
	g, err := encode.Marshal(got)
	w.must(err)
	s, err := encode.Marshal(want)
	w.must(err)
	if string(g) != string(s) {
		w.t.Errorf("pod %s (healthy plugins %q, sick %q): the answer to %s differs from the stock runtime's:\n%s",
			p.pod.GetName(), p.class, p.sick, what, cmp.Diff(want, got, protocmp.Transform()))
	}
}

func (w *world) update(p *podLife) {
	w.t.Helper()
	res := func() *api.LinuxResources {
		return &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(uint64(512))}}
	}
	ctx := w.t.Context()
	w.must(w.rt.UpdatePod(ctx, proto.CloneOf(p.pod), res(), res()))
	got, err := w.rt.Update(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr), res())
	w.must(err)
	want, err := w.stocks[p.class].Update(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr), res())
	w.must(err)
	w.same(p, "UpdateContainer", got, want)
}

func (w *world) remove(p *podLife) {
	w.t.Helper()
	p.live = false
	ctx := w.t.Context()
	got, err := w.rt.StopContainer(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr))
	w.must(err)
	want, err := w.stocks[p.class].StopContainer(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr))
	w.must(err)
	w.same(p, "StopContainer", got, want)
	w.must(w.rt.RemoveContainer(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr)))
	w.must(w.stocks[p.class].RemoveContainer(ctx, proto.CloneOf(p.pod), proto.CloneOf(p.ctr)))
	w.must(w.rt.RemovePod(ctx, proto.CloneOf(p.pod)))
}

// must fails the test: no event may ever fail because of a plugin.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// tally says what became of the work of a sick plugin on the containers that it selected, since the pod with the number from: how often it is there, and how often some is missing, by reason.
func (w *world) tally(plugin string, from int) (works int, missed map[string]int) {
	missed = map[string]int{}
	for _, p := range w.pods[from:] {
		if p.sick != plugin {
			continue
		}
		if p.works {
			works++
		}
		if p.why != "" {
			missed[p.why]++
		}
	}
	return works, missed
}
