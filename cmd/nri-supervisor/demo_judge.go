package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// demoJudge compares what the runtime saw with what the supervisor says. It is pure: everything comes from the two passes.
type demoJudge struct {
	base, pass *demoPass
	result     *demoResult

	replies map[int]*api.ContainerAdjustment
	missing map[string]map[string]string // by plugin and container id: the reason in the log
	windows []demoWindow
	limit   time.Duration
}

// judgeDemo returns the result, or an error when the passes prove nothing.
func judgeDemo(base, pass *demoPass) (*demoResult, error) {
	j := &demoJudge{base: base, pass: pass, result: &demoResult{}, replies: map[int]*api.ContainerAdjustment{}, missing: map[string]map[string]string{}}
	if err := j.baseline(); err != nil {
		return nil, err
	}
	if err := j.prepare(); err != nil {
		return nil, err
	}
	r := j.result
	r.Containers, r.RecoveryContainers = len(pass.pods), len(pass.pods)-pass.stream
	r.Registrations = pass.registrations
	r.DeadlineMissed = max(pass.late, pass.metrics.with("runtime_deadline_missed_total").sum())
	for _, pl := range slices.Concat(pass.hosted, pass.direct) {
		r.Plugins = append(r.Plugins, j.plugin(pl))
	}
	slices.SortFunc(r.Plugins, func(a, b demoPluginResult) int { return a.place() - b.place() })
	r.Promises = []demoPromise{j.blastRadius(), j.neverLate(), j.neverSilent()}
	broken, slow := 0, 0
	for _, p := range r.Promises {
		broken, slow = broken+len(p.Broken), slow+p.slow
	}
	r.onlySlow = broken > 0 && broken == slow
	return r, nil
}

// place is where the plugin stands in the order of calls.
func (p demoPluginResult) place() int {
	return slices.IndexFunc(demoPlugins(), func(pl demoPlugin) bool { return pl.name == p.Name })
}

// baseline refuses a baseline that is none.
func (j *demoJudge) baseline() error {
	for _, pod := range j.base.pods {
		c, ok := j.base.containers[pod.Number]
		switch {
		case !ok:
			return fmt.Errorf("baseline: nothing is known of container %s", pod.Name)
		case c.Err != "":
			return fmt.Errorf("baseline: container %s failed: %s", pod.Name, c.Err)
		case demoGPU().selects(pod) && !demoGPU().worked(c):
			return fmt.Errorf("baseline: gpu-env did not do its work on container %s", pod.Name)
		}
	}
	return nil
}

// prepare reads the replies and the log.
func (j *demoJudge) prepare() error {
	for n, c := range j.pass.containers {
		a, err := c.adjustment()
		if err != nil {
			return err
		}
		j.replies[n] = a
	}
	numbers := map[string]int{}
	for _, pod := range j.pass.pods {
		numbers[pod.id()] = pod.Number
	}
	for _, l := range j.pass.lines {
		if l.Msg != demoMsgMissing || l.Event != "CreateContainer" {
			continue
		}
		if j.missing[l.Plugin] == nil {
			j.missing[l.Plugin] = map[string]string{}
		}
		j.missing[l.Plugin][l.ContainerID] = l.Reason
		// A timeout that was cut short by a busy machine is called budget.
		if l.Reason == "timeout" || l.Reason == "budget" {
			c := j.pass.containers[numbers[l.ContainerID]]
			j.windows = append(j.windows, j.window(c))
		}
	}
	for _, pl := range j.pass.hosted {
		if pl.action == "" || j.pass.metrics.with("plugin_exits_total", "plugin", pl.name).sum() > 0 {
			continue
		}
		return fmt.Errorf("nothing is proven: the fault of %s never acted: run more containers, or fewer a second", pl.name)
	}
	return nil
}

// adjustment decodes what the runtime was told to change.
func (c demoContainer) adjustment() (*api.ContainerAdjustment, error) {
	var rpl api.CreateContainerResponse
	if err := proto.Unmarshal(c.Reply, &rpl); err != nil {
		return nil, fmt.Errorf("read the reply for container %d: %w", c.Number, err)
	}
	return rpl.GetAdjust(), nil
}

// worked tells whether the plugin's work is to be seen on the container.
func (p demoPlugin) worked(c demoContainer) bool {
	a, err := c.adjustment()
	return err == nil && c.Err == "" && slices.ContainsFunc(a.GetEnv(), func(e *api.KeyValue) bool { return e.GetKey()+"="+e.GetValue() == p.env })
}

// plugin counts what became of one plugin's work.
func (j *demoJudge) plugin(pl demoPlugin) demoPluginResult {
	m := j.pass.metrics
	r := demoPluginResult{
		Name: pl.name, Team: pl.team, Does: pl.does,
		Missed:        m.with("containers_missed_total", "plugin", pl.name).by("reason"),
		Rejected:      m.with("plugin_calls_total", "plugin", pl.name, "event", "CreateContainer", "outcome", "rejected").sum(),
		Restarts:      max(m.with("plugin_starts_total", "plugin", pl.name, "result", "success").sum()-1, 0),
		BreakerOpened: m.with("breaker_transitions_total", "plugin", pl.name, "to", "open").sum(),
		BreakerClosed: m.with("breaker_transitions_total", "plugin", pl.name, "to", "closed").sum(),
	}
	for _, pod := range j.pass.pods {
		if pl.selects(pod) {
			r.Selected++
			if pl.worked(j.pass.containers[pod.Number]) {
				r.Adjusted++
			}
		}
	}
	r.InService = m.with("plugin_up", "plugin", pl.name).sum() == 1 && m.with("breaker_state", "plugin", pl.name, "state", "closed").sum() == 1
	if slices.Contains(j.pass.direct, pl) {
		r.InService = true
	}
	if probe, ok := j.pass.probes[pl.name]; ok {
		r.InService = r.InService && pl.worked(j.pass.containers[probe])
	}
	return r
}

// neverLate checks deadlines, the registration, and that everybody is back and knows the truth.
func (j *demoJudge) neverLate() demoPromise {
	r := j.result
	var broken []string
	if r.DeadlineMissed > 0 {
		broken = append(broken, fmt.Sprintf("%s of the runtime not answered in its %s", count(r.DeadlineMissed, "request"), api.DefaultPluginRequestTimeout))
	}
	if sessions := j.pass.metrics.with("runtime_sessions_total").sum(); r.Registrations != 1 || sessions != 1 {
		broken = append(broken, fmt.Sprintf("the runtime saw %d registrations of the supervisor, and the supervisor %d; 1 is right", r.Registrations, sessions))
	}
	broken = append(broken, j.pass.unfinished...)
	for _, p := range r.Plugins {
		if !p.InService {
			broken = append(broken, fmt.Sprintf("%s is not in service at the end", p.Name))
		}
	}
	for _, pl := range j.pass.hosted {
		known, asked := j.pass.known[pl.name]
		if want := j.pass.liveOf(pl); asked && !slices.Equal(known, want) {
			broken = append(broken, fmt.Sprintf("%s knows %d containers, and %d of its containers exist: %s", pl.name, len(known), len(want), difference(known, want)))
		}
	}
	return demoPromise{
		Name: "never late, never lost", Kept: len(broken) == 0, Broken: nonNil(broken),
		Proof: "1 registration, no answer after the runtime's deadline, and each plugin is back and knows exactly the containers that exist",
	}
}

// verdict is nil when all promises are kept.
func (r *demoResult) verdict() error {
	var broken []string
	for _, p := range r.Promises {
		for _, b := range p.Broken {
			broken = append(broken, fmt.Sprintf("%s: %s", p.Name, b))
		}
	}
	if len(broken) == 0 {
		return nil
	}
	err := errors.New("a promise is broken: " + clean(broken[0]))
	if r.Without != "" {
		return hintError{err, []string{"that is what --without " + r.Without + " is there to show"}}
	}
	return err
}
