package store_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// twin is the slow, obvious store: two flat lists, every answer found by looking at all of it. Its messages have an id, a name, labels, a
// state and a process id, and nothing else. Scripts name every pod, so it resolves nothing.
type twin struct {
	pods []*twinPod
	ctrs []*twinCtr
}

type twinPod struct {
	msg          *api.PodSandbox
	seen         time.Time
	events       int
	listed       bool
	sparedAt     int // events when a Replace spared it, -1 = never
	pinned       bool
	pins         []store.Pin
	hadContainer bool
}

type twinCtr struct {
	ref    store.Ref
	msg    *api.Container
	phase  store.Phase
	pinned bool
	pins   []store.Pin
	work   []store.Work
}

func (w *twin) pod(id string) *twinPod {
	for _, p := range w.pods {
		if p.msg.GetId() == id {
			return p
		}
	}
	return nil
}

func (w *twin) ctr(ref store.Ref) *twinCtr {
	for _, c := range w.ctrs {
		if c.ref == ref {
			return c
		}
	}
	return nil
}

func (w *twin) observePod(p *api.PodSandbox, at time.Time) *twinPod {
	known := w.pod(p.GetId())
	if known == nil {
		known = &twinPod{msg: p, seen: at, sparedAt: -1}
		w.pods = append(w.pods, known)
		known.events++
		return known
	}
	known.events++
	next := &api.PodSandbox{Id: p.GetId(), Name: p.GetName(), Pid: p.GetPid(), Labels: map[string]string{}}
	if next.GetName() == "" {
		next.Name = known.msg.GetName()
	}
	maps.Copy(next.Labels, known.msg.GetLabels())
	maps.Copy(next.Labels, p.GetLabels())
	known.msg = next
	return known
}

func (w *twin) create(p *api.PodSandbox, c *api.Container, at time.Time) {
	ref := store.Ref{Pod: p.GetId(), Container: c.GetId()}
	w.observePod(p, at).hadContainer = true
	w.ctrs = slices.DeleteFunc(w.ctrs, func(o *twinCtr) bool { return o.ref == ref })
	w.ctrs = append(w.ctrs, &twinCtr{ref: ref, msg: c, phase: store.PhaseCreating})
}

func (w *twin) observeCtr(p *api.PodSandbox, c *api.Container, at time.Time) {
	w.observePod(p, at).hadContainer = true
	known := w.refresh(c)
	if now := known.msg.GetState(); now == api.ContainerState_CONTAINER_STOPPED {
		known.phase = store.PhaseStopped
	} else if now == api.ContainerState_CONTAINER_RUNNING && known.phase == store.PhaseCreating {
		known.phase = store.PhaseCreated
	}
}

func (w *twin) refresh(c *api.Container) *twinCtr {
	ref := store.Ref{Pod: c.GetPodSandboxId(), Container: c.GetId()}
	known := w.ctr(ref)
	if known == nil {
		known = &twinCtr{ref: ref, msg: c, phase: store.PhaseCreated}
		w.ctrs = append(w.ctrs, known)
		return known
	}
	next := &api.Container{Id: c.GetId(), PodSandboxId: c.GetPodSandboxId(), Name: c.GetName(), State: c.GetState(), Pid: c.GetPid()}
	if next.GetName() == "" {
		next.Name = known.msg.GetName()
	}
	if next.GetState() == api.ContainerState_CONTAINER_UNKNOWN {
		next.State = known.msg.GetState()
	}
	if next.Labels = c.GetLabels(); len(next.GetLabels()) == 0 {
		next.Labels = known.msg.GetLabels()
	}
	known.msg = next
	return known
}

func (w *twin) replace(pods []*api.PodSandbox, ctrs []*api.Container, at, since time.Time) {
	listedPods, listedCtrs := map[string]bool{}, map[store.Ref]bool{}
	for _, p := range pods {
		listedPods[p.GetId()] = true
		w.observePod(p, at).listed = true
	}
	for _, c := range ctrs {
		p := w.pod(c.GetPodSandboxId())
		if p == nil {
			p = w.observePod(&api.PodSandbox{Id: c.GetPodSandboxId()}, at)
		}
		p.listed = true
		listedPods[c.GetPodSandboxId()] = true
		known := w.refresh(c)
		listedCtrs[known.ref] = true
		known.phase = store.PhaseCreated
		if known.msg.GetState() == api.ContainerState_CONTAINER_STOPPED {
			known.phase = store.PhaseStopped
		}
	}
	w.ctrs = slices.DeleteFunc(w.ctrs, func(c *twinCtr) bool { return !listedCtrs[c.ref] })
	w.pods = slices.DeleteFunc(w.pods, func(p *twinPod) bool {
		if listedPods[p.msg.GetId()] {
			return false
		}
		if p.events == 1 && !p.listed && !p.hadContainer && !p.seen.Before(since) {
			p.sparedAt = p.events
			return false
		}
		return true
	})
}

func (w *twin) dropSpared(before time.Time) {
	w.pods = slices.DeleteFunc(w.pods, func(p *twinPod) bool {
		return p.sparedAt == p.events && !p.listed && !p.hadContainer && p.seen.Before(before)
	})
}

func (w *twin) removePod(id string) {
	w.pods = slices.DeleteFunc(w.pods, func(p *twinPod) bool { return p.msg.GetId() == id })
	w.ctrs = slices.DeleteFunc(w.ctrs, func(c *twinCtr) bool { return c.ref.Pod == id })
}

func (w *twin) removeCtr(ref store.Ref) {
	w.ctrs = slices.DeleteFunc(w.ctrs, func(c *twinCtr) bool { return c.ref == ref })
}

// forget is Unpin and ForgetPlugin: everything of the plugin in what in accepts.
func (w *twin) forget(plugin string, in func(store.Ref) bool) {
	noPin := func(p store.Pin) bool { return p.Plugin == plugin }
	for _, p := range w.pods {
		if in(store.Ref{Pod: p.msg.GetId()}) {
			p.pins = slices.DeleteFunc(slices.Clone(p.pins), noPin)
		}
	}
	for _, c := range w.ctrs {
		if in(c.ref) {
			c.pins = slices.DeleteFunc(slices.Clone(c.pins), noPin)
			c.work = slices.DeleteFunc(slices.Clone(c.work), func(k store.Work) bool { return k.Plugin == plugin })
		}
	}
}

func (w *twin) setPins(ref store.Ref, pins []store.Pin) {
	if ref.IsPod() {
		if p := w.pod(ref.Pod); p != nil {
			p.pins, p.pinned = pins, true
		}
	} else if c := w.ctr(ref); c != nil {
		c.pins, c.pinned = pins, true
	}
}

func (w *twin) setWork(ref store.Ref, k store.Work) {
	c := w.ctr(ref)
	if c == nil {
		return
	}
	for i := range c.work {
		if c.work[i].Plugin == k.Plugin {
			c.work[i] = k
			return
		}
	}
	c.work = append(c.work, k)
}

func (w *twin) all() (pods, ctrs []store.Entry) {
	pods, ctrs = []store.Entry{}, []store.Entry{}
	for _, p := range w.pods {
		pods = append(pods, store.Entry{Ref: store.Ref{Pod: p.msg.GetId()}, Pod: p.msg, Phase: store.PhaseCreated, Pinned: p.pinned, Pins: p.pins})
	}
	for _, c := range w.ctrs {
		ctrs = append(ctrs, store.Entry{Ref: c.ref, Pod: w.pod(c.ref.Pod).msg, Container: c.msg, Phase: c.phase, Pinned: c.pinned, Pins: c.pins, Work: c.work})
	}
	byRef := func(a, b store.Entry) int {
		return cmp.Or(cmp.Compare(a.Ref.Pod, b.Ref.Pod), cmp.Compare(a.Ref.Container, b.Ref.Container))
	}
	slices.SortFunc(pods, byRef)
	slices.SortFunc(ctrs, byRef)
	return pods, ctrs
}

func (w *twin) snapshot(plugin string) (pods, ctrs []string, creating []store.Ref) {
	pods, ctrs = []string{}, []string{}
	podEntries, ctrEntries := w.all()
	selected := func(e store.Entry) bool {
		return e.Phase != store.PhaseStopped && slices.ContainsFunc(e.Pins, func(p store.Pin) bool { return p.Plugin == plugin && p.Selected })
	}
	for _, p := range podEntries {
		if selected(p) || slices.ContainsFunc(ctrEntries, func(c store.Entry) bool { return c.Ref.Pod == p.Ref.Pod && selected(c) }) {
			pods = append(pods, p.Ref.Pod)
		}
	}
	for _, c := range ctrEntries {
		switch {
		case !selected(c):
		case c.Phase == store.PhaseCreating:
			creating = append(creating, c.Ref)
		default:
			ctrs = append(ctrs, c.Ref.Container)
		}
	}
	return pods, ctrs, creating
}

func (w *twin) missed() (n int, counts map[store.MissedKey]int) {
	counts = map[store.MissedKey]int{}
	for _, c := range w.ctrs {
		for _, k := range c.work {
			if k.Missed && c.phase != store.PhaseStopped {
				n++
				counts[store.MissedKey{Plugin: k.Plugin, Reason: k.Reason}]++
			}
		}
	}
	return n, counts
}

// find returns the only container with the id; its pod is unknown when there are several or none.
func (w *twin) find(id string) store.Ref {
	out := store.Ref{Container: id}
	found := 0
	for _, c := range w.ctrs {
		if c.ref.Container == id {
			found++
			out.Pod = c.ref.Pod
		}
	}
	if found != 1 {
		out.Pod = ""
	}
	return out
}
