package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

func newPlugin() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plugin",
		Aliases: []string{"plugins"},
		Short:   "List, show and steer plugins",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2, // cobra's own default, which it sets only where it makes the suggestions itself
	}
	cmd.AddCommand(newPluginList(), newPluginShow())
	for _, a := range pluginActions() {
		cmd.AddCommand(newPluginAction(a))
	}
	return cmd
}

// oneName takes exactly one argument, the name of a plugin.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] != "" {
		return nil
	}
	err := fmt.Errorf("%s: %d arguments instead of the name of one plugin", cmd.CommandPath(), len(args))
	return usageError{hintError{err, []string{"see the names: nri-supervisor plugin list"}}}
}

func newPluginList() *cobra.Command {
	var at connectFlags
	var out format
	cmd := &cobra.Command{
		Use: "list", Short: "List the plugins in calling order", Args: noArgs,
		Example: "  nri-supervisor plugin list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			st, err := c.Status(cmd.Context())
			if err != nil {
				return asked(err)
			}
			return out.show(cmd.OutOrStdout(), st.Plugins, func(b *paper) { writePlugins(b, st, time.Now()) })
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// writePlugins is the list for people. SINCE is the same as in status.
func writePlugins(b *paper, st supervisor.Status, now time.Time) {
	if len(st.Plugins) == 0 {
		b.WriteString("No plugin is loaded.\n")
		return
	}
	t := table{head: []string{"PLUGIN", "INDEX", "TEAM", "STATE", "BREAKER", "PID", "VERSION", "SINCE"}}
	for _, p := range st.Plugins {
		pid, version := "", ""
		if p.PID != 0 {
			pid = strconv.Itoa(p.PID)
		}
		if p.Identity != nil {
			version = p.Identity.Version
		}
		t.row(nil, p.Name, p.Index, p.Team, p.State, p.Breaker.State, pid, version, moment(now, statuspage.Since(p, now)))
	}
	t.render(b)
	if st.Bypass != nil {
		b.WriteByte('\n')
		wrap(b, "bypass ", bypassText(*st.Bypass, now))
	}
}

func newPluginShow() *cobra.Command {
	var at connectFlags
	var out format
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show all there is to know of a plugin, with its last exits and their output", Args: oneName, ValidArgsFunction: at.completePlugins(1),
		Example: "  nri-supervisor plugin show gpu-env",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			st, err := c.Status(cmd.Context())
			if err != nil {
				return asked(err)
			}
			p, err := findPlugin(st, args[0])
			if err != nil {
				return err
			}
			return out.show(cmd.OutOrStdout(), p, func(b *paper) { writePlugin(b, st, p, time.Now()) })
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// writePlugin is one plugin of st for people.
func writePlugin(b *paper, st supervisor.Status, p supervisor.PluginStatus, now time.Time) {
	f := fields{b, len("last error ")}
	team := p.Team
	if p.Contact != "" {
		team += ", ask " + p.Contact
	}
	f.line("plugin", p.Name)
	f.line("team", team)
	f.line("index", p.Index)
	f.line("manifest", p.ManifestFile)
	if p.Since.IsZero() {
		f.line("state", p.State)
	} else {
		f.line("state", p.State+" for "+sinceText(now, p.Since)+nextStart(p, now))
	}
	f.line("", awaitedText(p, now))
	if look := statuspage.LookTexts(p, now); len(look) > 0 {
		f.line("look", "needs one for "+sinceText(now, statuspage.Since(p, now))+": "+strings.Join(look, "; "))
	}
	if p.FailsClosed {
		f.line("", firstOf(statuspage.MeanwhileText(p), "containers that need it are refused while it is not in service"))
	}
	if waitsForRuntime(st, p) {
		f.line("", "waits for the runtime: nri-supervisor status")
	}
	for _, problem := range p.Problems {
		f.line("problem", problem)
	}
	if p.State == stateInvalid {
		return // it never ran
	}
	f.line("manifest", staleText(p))
	f.line("breaker", showBreaker(p.Breaker, now))
	writeOpening(f, p, now)
	f.line("", manualEnd(p))
	if st.Bypass != nil {
		f.line("bypass", bypassText(*st.Bypass, now))
	}
	if p.PID != 0 {
		f.line("pid", strconv.Itoa(p.PID))
	}
	if id := p.Identity; id != nil {
		f.line("version", id.Version)
		f.line("nri", id.NRIVersion)
		f.line("sha256", id.SHA256)
		f.line("runs without", id.Reduced)
	}
	f.line("restarts", strconv.Itoa(p.Restarts))
	f.line("missed", missedText(p))
	if p.Missed > 0 {
		f.line("", "list them: nri-supervisor missed --plugin "+p.Name)
	}
	for _, r := range p.Conflicts {
		f.line("conflicts", fmt.Sprintf("%s with %s of team %s, the last %s over %s", count(r.Count, "time"), r.Plugin, r.Team, ago(now, r.At), strings.Join(r.Fields, ", ")))
	}
	f.line("refused", refusals(p, now))
	if p.Refused > 0 {
		f.line("", "list them: nri-supervisor events --action failed --plugin "+p.Name)
	}
	f.line("lane", fmt.Sprintf("events waited %.3f s for it in all", p.LaneSeconds))
	if len(p.Quarantined) > 0 {
		f.line("quarantine", "these pods harmed it too often and do not reach it: "+strings.Join(p.Quarantined, ", "))
		f.line("", "end that: nri-supervisor plugin unquarantine "+p.Name)
	}
	f.line("last error", p.LastError)
	writeExits(b, p.Exits)
}

func showBreaker(v supervisor.BreakerView, now time.Time) string {
	if text, ok := strings.CutPrefix(breakerText(v, now), "breaker "); ok {
		return strings.Replace(text, "("+v.Cause+")", "("+v.Cause+": "+statuspage.CauseText(v.Cause)+")", 1)
	}
	if v.Since.IsZero() {
		return v.State
	}
	return v.State + " for " + sinceText(now, v.Since)
}

// writeOpening says what the breaker waits for, and what opened it, now or the last time.
func writeOpening(f fields, p supervisor.PluginStatus, now time.Time) {
	v := p.Breaker
	f.line("  waits", statuspage.WaitText(v.WaitsFor))
	o := v.Opening
	if o == nil {
		return
	}
	text := ago(now, o.At) + " by " + o.Cause + ": " + statuspage.CauseText(o.Cause)
	if o.Again > 0 {
		text += "; " + count(o.Again, "trial") + " failed since"
	}
	if !o.Closed.IsZero() {
		text += "; closed again " + stamp(o.Closed)
	}
	if !inService(p) { // else it stands above, as what needs a look
		f.line("  failing", statuspage.FlapText(p, now))
	}
	f.line("  opened", text)
	f.line("  first", failureText(o.First, now))
	f.line("  last", failureText(o.Last, now))
}

// failureText is one failure; "" for none.
func failureText(x *supervisor.Failure, now time.Time) string {
	if x == nil {
		return ""
	}
	text := ago(now, x.At) + ":"
	if x.Event != "" {
		text += " " + x.Event + " of " + x.Namespace + "/" + x.Pod
		if x.Container != "" {
			text += "/" + x.Container
		}
		text += ","
	}
	return text + " " + strings.Join(nonEmpty(x.Reason, x.Detail), ", ")
}

// refusals counts the requests that failed for the plugin's sake.
func refusals(p supervisor.PluginStatus, now time.Time) string {
	if p.Refused == 0 {
		return "no request of the runtime since the start"
	}
	return fmt.Sprintf("%s of the runtime since the start, the last %s: %s", count(p.Refused, "request"), ago(now, p.RefusedAt), sums(p.RefusedBy))
}

// sums are counts by reason.
func sums(list []supervisor.ReasonSum) string {
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = fmt.Sprintf("%s %d", r.Reason, r.Count)
	}
	return strings.Join(out, ", ")
}

// missedText counts the containers that run without the plugin's work.
func missedText(p supervisor.PluginStatus) string {
	if p.Missed == 0 {
		return "no container"
	}
	verb := "run"
	if p.Missed == 1 {
		verb = "runs"
	}
	return fmt.Sprintf("%s that now %s without its work: %s", count(p.Missed, "container"), verb, sums(p.MissedBy))
}

// olderOutput is how many lines of output are shown of exits before the last one: their beginning, which says more than the end of a stack.
const olderOutput = 3

// writeExits lists how the last incarnations ended, the latest last. Their output is not broken into lines: it is evidence.
func writeExits(b *paper, exits []supervisor.ExitRecord) {
	if len(exits) == 0 {
		return
	}
	b.WriteString("\nexits, the latest last:\n")
	for i, x := range exits {
		text := clean(x.Reason)
		if x.Detail != "" {
			text += ": " + x.Detail
		}
		if x.PID != 0 {
			text = fmt.Sprintf("pid %d, %s", x.PID, text)
		}
		if x.InFlight != "" {
			text += ", during " + x.InFlight
		}
		wrap(b, "  "+stamp(x.At)+"  ", text)
		output := x.Output
		if older := i < len(exits)-1; older && len(output) > olderOutput {
			output = append(slices.Clone(output[:olderOutput]), fmt.Sprintf("… and %s more with -o json", count(len(x.Output)-olderOutput, "line")))
		}
		for _, line := range output {
			evidence(b, "    | ", line)
		}
	}
}
