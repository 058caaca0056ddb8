package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// demoSlack is what an unselected container's p99 may be above the baseline's when twice the baseline is less.
const demoSlack = 10 * time.Millisecond

// demoWindow is the time in which one plugin used up its timeout on one container, and so kept the node; drained is when those were served that had come until its end.
type demoWindow struct{ begin, end, drained time.Duration }

func (j *demoJudge) window(c demoContainer) demoWindow {
	w := demoWindow{begin: c.CreateBegin, end: c.CreateEnd, drained: c.CreateEnd}
	for _, other := range j.pass.containers {
		if other.Arrived < w.end && other.Started > w.begin {
			w.drained = max(w.drained, other.Started)
		}
	}
	return w
}

// unselectedDemo tells whether no broken plugin is meant to see the pod.
func unselectedDemo(pod demoPod) bool {
	return !slices.ContainsFunc(demoBroken(), func(pl demoPlugin) bool { return pl.selects(pod) })
}

// affected collects the names of containers by what happened to them.
type affected struct {
	what  string
	names []string
}

// blastRadius compares each container that no broken plugin selects with the baseline.
func (j *demoJudge) blastRadius() demoPromise {
	r := j.result
	p99 := j.baselineLatency()
	j.limit = max(2*p99, p99+demoSlack)
	r.LimitMs = demoMs(j.limit)
	var gone, failed, changed, late affected
	gone.what, failed.what, changed.what, late.what = "never came up", "failed", "differ from the baseline", "waited longer than a plugin's timeout allows"
	var waits []time.Duration
	for _, pod := range j.pass.pods[:j.pass.stream] {
		if !unselectedDemo(pod) {
			continue
		}
		r.Unselected++
		c, ok := j.pass.containers[pod.Number]
		if !ok {
			gone.names = append(gone.names, pod.Name)
			continue
		}
		allowed, aside := j.allowed(c)
		if aside {
			r.SetAside.Containers++
			r.SetAside.LongestMs = max(r.SetAside.LongestMs, demoMs(c.waited()))
		} else {
			waits = append(waits, c.waited())
		}
		switch {
		case c.Err != "":
			failed.names = append(failed.names, pod.Name+" ("+c.Err+")")
		case !bytes.Equal(c.Reply, j.base.containers[pod.Number].Reply):
			changed.names = append(changed.names, pod.Name)
		case c.waited() > allowed:
			late.names = append(late.names, fmt.Sprintf("%s (%.0f ms)", pod.Name, demoMs(c.waited())))
		}
	}
	r.Latency = demoLatencyOf(waits)
	broken := slices.Concat(j.tell(gone), j.tell(failed), j.tell(changed))
	lasting := len(broken)
	broken = append(broken, j.tell(late)...)
	if got := demoPercentile(waits, 99); got > j.limit {
		broken = append(broken, fmt.Sprintf("containers that no broken plugin selected waited %.1f ms at p99; without the broken plugins it is %.1f ms, and %.1f ms is the limit",
			demoMs(got), r.Baseline.P99, r.LimitMs))
	}
	broken = append(broken, j.oneTimeoutEach(len(waits))...)
	return demoPromise{
		Name: "blast radius", Kept: len(broken) == 0, Broken: nonNil(broken), slow: len(broken) - lasting,
		Proof: fmt.Sprintf("the %d containers that no broken plugin selected got, byte for byte, what they get without it, and none waited longer than the limit above",
			r.Unselected),
	}
}

// tell says how many containers are affected, and counts them.
func (j *demoJudge) tell(a affected) []string {
	if len(a.names) == 0 {
		return nil
	}
	j.result.UnselectedAffected += len(a.names)
	return []string{fmt.Sprintf("%s that no broken plugin selected %s: %s", count(len(a.names), "container"), a.what, someOf(a.names))}
}

// baselineLatency returns the baseline's p99.
func (j *demoJudge) baselineLatency() time.Duration {
	var waits []time.Duration
	for _, pod := range j.base.pods {
		if unselectedDemo(pod) {
			waits = append(waits, j.base.containers[pod.Number].waited())
		}
	}
	j.result.Baseline = demoLatencyOf(waits)
	return demoPercentile(waits, 99)
}

// oneTimeoutEach checks that what was set aside is no more than one timeout for each hang. left is how many were not.
func (j *demoJudge) oneTimeoutEach(left int) []string {
	var broken []string
	s := &j.result.SetAside
	s.Timeouts, s.Hangs = len(j.windows), j.pass.metrics.with("plugin_exits_total", "reason", "hung").sum()
	if s.Timeouts > s.Hangs {
		broken = append(broken, fmt.Sprintf("%s cost the node %s; one each is the limit", count(s.Hangs, "hang"), count(s.Timeouts, "timeout")))
	}
	for _, w := range j.windows {
		if got := w.end - w.begin; got > demoTimeout*3/2 { // half as long again, for a machine that is busy
			broken = append(broken, fmt.Sprintf("one hang kept the node waiting for %.0f ms; its timeout is %.0f ms", demoMs(got), demoMs(demoTimeout)))
		}
	}
	if left < s.Containers {
		broken = append(broken, fmt.Sprintf("%d of %d containers were set aside because a plugin's timeout ran meanwhile: too many to judge the others by",
			s.Containers, s.Containers+left))
	}
	return broken
}

// allowed is how long a container may have waited before it counts as affected: a whole timeout longer than the limit of the p99, and each timeout that ran meanwhile. aside
// tells whether one did. A single wait above the p99 breaks no promise; one as long as a hang that should not have reached the container does.
func (j *demoJudge) allowed(c demoContainer) (allowed time.Duration, aside bool) {
	allowed = j.limit + demoTimeout
	for _, w := range j.windows {
		if c.Arrived < w.drained && c.Started > w.begin {
			allowed += demoTimeout
			aside = true
		}
	}
	return allowed, aside
}
