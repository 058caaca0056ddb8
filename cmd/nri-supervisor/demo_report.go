package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// writeDemo writes the result for people.
func writeDemo(b *paper, r *demoResult) {
	b.WriteByte('\n')
	rows := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		text := make([]string, len(cells))
		for i, c := range cells {
			text[i] = fmt.Sprint(c)
		}
		_, _ = fmt.Fprintln(rows, strings.Join(text, "\t")) // a buffer takes everything
	}
	row("PLUGIN", "TEAM", "FAULT", "SELECTED", "= ADJUSTED", "+ MISSED", "+ REJECTED")
	for _, p := range r.Plugins {
		row(p.Name, p.Team, p.Does, p.Selected, p.Adjusted, p.missed(), p.Rejected)
	}
	_ = rows.Flush()
	b.WriteByte('\n')
	for _, p := range r.Plugins {
		if p.Restarts+p.BreakerOpened+p.missed() > 0 {
			wrap(b, fmt.Sprintf("%-10s ", p.Name), fmt.Sprintf("restarted %s, breaker opened %s and closed %s; missed: %s",
				count(p.Restarts, "time"), count(p.BreakerOpened, "time"), count(p.BreakerClosed, "time"), reasonsOf(p.Missed)))
		}
	}
	fmt.Fprintf(b, "\nThe %d containers that neither broken plugin selected:\n\n", r.Unselected)
	row("", "WITHOUT THEM", "WITH THEM")
	row("failed, changed or kept waiting", "", r.UnselectedAffected)
	row("wait for NRI, half of them", fmt.Sprintf("%.1f ms", r.Baseline.P50), fmt.Sprintf("%.1f ms", r.Latency.P50))
	row("wait for NRI, 99 of 100", fmt.Sprintf("%.1f ms", r.Baseline.P99), fmt.Sprintf("%.1f ms (limit %.1f ms)", r.Latency.P99, r.LimitMs))
	row("set aside, behind a hang", "", fmt.Sprintf("%d, at most %.0f ms (%s of %d ms in %s)", r.SetAside.Containers, r.SetAside.LongestMs,
		count(r.SetAside.Timeouts, "timeout"), demoTimeout.Milliseconds(), count(r.SetAside.Hangs, "hang")))
	_ = rows.Flush()
	b.WriteByte('\n')
	for _, p := range r.Promises {
		verdict := "kept  "
		if !p.Kept {
			verdict = "BROKEN"
		}
		fmt.Fprintf(b, "%s  %s\n", verdict, p.Name)
		lines := p.Broken
		if p.Kept {
			lines = []string{p.Proof}
		}
		for _, l := range lines {
			wrap(b, "        ", l)
		}
	}
	fmt.Fprintf(b, "\n%s, %s, %s of the supervisor with the runtime; %.0f s\n",
		count(r.Containers, "container"), count(len(r.Plugins), "plugin"), count(r.Registrations, "registration"), r.Seconds)
}

func reasonsOf(missed map[string]int) string {
	reasons := slices.Collect(maps.Keys(missed))
	slices.SortFunc(reasons, func(a, b string) int {
		if missed[a] != missed[b] {
			return missed[b] - missed[a]
		}
		return strings.Compare(a, b)
	})
	for i, r := range reasons {
		reasons[i] = fmt.Sprintf("%s %d", r, missed[r])
	}
	return strings.Join(reasons, ", ")
}
