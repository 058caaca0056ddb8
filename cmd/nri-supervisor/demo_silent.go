package main

import (
	"fmt"
	"slices"
	"strings"
)

// neverSilent checks that each piece of work that is missing has been told, in every place where it should be.
func (j *demoJudge) neverSilent() demoPromise {
	var broken []string
	missed := 0
	for _, r := range j.result.Plugins {
		missed += r.missed()
		if sum := r.Adjusted + r.missed() + r.Rejected; sum != r.Selected {
			broken = append(broken, fmt.Sprintf("%s was to do its work on %d containers: it did on %d, and %d are told to be without it", r.Name, r.Selected, r.Adjusted, r.missed()+r.Rejected))
		}
	}
	for _, pl := range j.pass.hosted {
		broken = append(broken, j.told(pl)...)
	}
	return demoPromise{
		Name: "never silent", Kept: len(broken) == 0, Broken: nonNil(broken),
		Proof: fmt.Sprintf("for each plugin selected = adjusted + missed + rejected; each of the %d misses is in the metrics, in the log and on the container, the living ones in the record too", missed),
	}
}

// told compares the containers without the plugin's work, as the runtime sees them, with the log, the annotation and the record.
func (j *demoJudge) told(pl demoPlugin) []string {
	var broken []string
	var without, living, unmarked []string
	reasons := map[string]int{}
	for _, pod := range j.pass.pods {
		c := j.pass.containers[pod.Number]
		if !pl.selects(pod) || pl.worked(c) || c.Err != "" {
			continue
		}
		without = append(without, pod.id())
		reason := j.missing[pl.name][pod.id()]
		if !slices.Contains(strings.Split(j.replies[pod.Number].GetAnnotations()["nri-supervisor.dev/missed"], ","), pl.name+"="+reason) {
			unmarked = append(unmarked, pod.Name)
		}
		if slices.Contains(j.pass.live, pod.Number) {
			living = append(living, pod.id())
		}
	}
	var logged, recorded []string
	for id, reason := range j.missing[pl.name] {
		logged = append(logged, id)
		reasons[reason]++
	}
	for _, m := range j.pass.records {
		if m.Plugin == pl.name {
			recorded = append(recorded, m.ContainerID)
		}
	}
	if d := difference(logged, without); d != "" {
		broken = append(broken, fmt.Sprintf("the log and the runtime differ about which containers are without the work of %s: %s", pl.name, d))
	}
	if d := difference(recorded, living); d != "" {
		broken = append(broken, fmt.Sprintf("the supervisor's record and the runtime differ about which living containers are without the work of %s: %s", pl.name, d))
	}
	if len(unmarked) > 0 {
		broken = append(broken, fmt.Sprintf("%d containers do not carry the annotation that the work of %s is missing: %s", len(unmarked), pl.name, someOf(unmarked)))
	}
	for reason, n := range j.pass.metrics.with("containers_missed_total", "plugin", pl.name).by("reason") {
		if reasons[reason] != n {
			broken = append(broken, fmt.Sprintf("the metrics count %d containers without the work of %s by reason %s, the log %d", n, pl.name, reason, reasons[reason]))
		}
	}
	return broken
}

// difference says in words how two sets differ; "" when they do not.
func difference(got, want []string) string {
	missing := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return slices.Contains(got, s) })
	extra := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return slices.Contains(want, s) })
	var parts []string
	for _, p := range []struct {
		what string
		ids  []string
	}{{"missing", missing}, {"too many", extra}} {
		if len(p.ids) > 0 {
			slices.Sort(p.ids)
			parts = append(parts, p.what+" "+someOf(p.ids))
		}
	}
	return strings.Join(parts, ", ")
}

// someOf lists the first few of a list.
func someOf(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
