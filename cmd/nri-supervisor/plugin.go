package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
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
			return out.show(cmd.OutOrStdout(), st.Plugins, func(b *bytes.Buffer) { writePlugins(b, st, time.Now()) })
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// writePlugins is the list for people. SINCE is the same as in status.
func writePlugins(b *bytes.Buffer, st supervisor.Status, now time.Time) {
	if len(st.Plugins) == 0 {
		b.WriteString("No plugin is loaded.\n")
		return
	}
	t := table{head: []string{"PLUGIN", "INDEX", "TEAM", "STATE", "BREAKER", "PID", "SINCE", "VERSION"}}
	for _, p := range st.Plugins {
		pid, version := "", ""
		if p.PID != 0 {
			pid = strconv.Itoa(p.PID)
		}
		if p.Identity != nil {
			version = p.Identity.Version
		}
		t.row(nil, p.Name, p.Index, p.Team, p.State, p.Breaker.State, pid, since(now, asItIs(p)), version)
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
			return out.show(cmd.OutOrStdout(), p, func(b *bytes.Buffer) { writePlugin(b, st, p, time.Now()) })
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// writePlugin is one plugin of st for people.
func writePlugin(b *bytes.Buffer, st supervisor.Status, p supervisor.PluginStatus, now time.Time) {
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
		f.line("state", fmt.Sprintf("%s for %s, since %s", p.State, since(now, p.Since), stamp(p.Since)))
	}
	if p.FailsClosed {
		f.line("", "containers that need it are refused while it is not in service")
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
	}
	f.line("restarts", strconv.Itoa(p.Restarts))
	f.line("missed", missedText(p))
	if p.Missed > 0 {
		f.line("", "list them: nri-supervisor missed --plugin "+p.Name)
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
		return text
	}
	if v.Since.IsZero() {
		return v.State
	}
	return fmt.Sprintf("%s for %s, since %s", v.State, since(now, v.Since), stamp(v.Since))
}

// missedText counts the containers that run without the plugin's work.
func missedText(p supervisor.PluginStatus) string {
	if p.Missed == 0 {
		return "no container"
	}
	reasons := make([]string, len(p.MissedBy))
	for i, r := range p.MissedBy {
		reasons[i] = fmt.Sprintf("%s %d", r.Reason, r.Count)
	}
	verb := "run"
	if p.Missed == 1 {
		verb = "runs"
	}
	return fmt.Sprintf("%s that now %s without its work: %s", count(p.Missed, "container"), verb, strings.Join(reasons, ", "))
}

// writeExits lists how the last incarnations ended, the latest last. Their output is not broken into lines: it is evidence.
func writeExits(b *bytes.Buffer, exits []supervisor.ExitRecord) {
	if len(exits) == 0 {
		return
	}
	b.WriteString("\nexits, the latest last:\n")
	for _, x := range exits {
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
		for _, line := range x.Output {
			b.WriteString("    | " + clean(line) + "\n")
		}
	}
}
