package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
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
			return out.show(cmd.OutOrStdout(), st.Plugins, func(b *bytes.Buffer) { writePlugins(b, st.Plugins, time.Now()) })
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}

func writePlugins(b *bytes.Buffer, list []supervisor.PluginStatus, now time.Time) {
	if len(list) == 0 {
		b.WriteString("No plugin is loaded.\n")
		return
	}
	t := table{head: []string{"PLUGIN", "INDEX", "TEAM", "STATE", "BREAKER", "PID", "SINCE", "VERSION"}}
	for _, p := range list {
		pid, version := "", ""
		if p.PID != 0 {
			pid = strconv.Itoa(p.PID)
		}
		if p.Identity != nil {
			version = p.Identity.Version
		}
		t.row(nil, p.Name, p.Index, p.Team, p.State, p.Breaker.State, pid, since(now, p.Since), version)
	}
	t.render(b)
}

func newPluginShow() *cobra.Command {
	var at connectFlags
	var out format
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show all there is to know of a plugin, with its last exits and their output", Args: oneName,
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
			return out.show(cmd.OutOrStdout(), p, func(b *bytes.Buffer) { writePlugin(b, p, time.Now()) })
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// writePlugin is one plugin for people.
func writePlugin(b *bytes.Buffer, p supervisor.PluginStatus, now time.Time) {
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
	for _, problem := range p.Problems {
		f.line("problem", problem)
	}
	if p.State == stateInvalid {
		return // it never ran
	}
	f.line("breaker", showBreaker(p.Breaker, now))
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
	return fmt.Sprintf("%s that now run without its work: %s", count(p.Missed, "container"), strings.Join(reasons, ", "))
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

// pluginAction is a command that changes a plugin, and what it says when that was taken note of.
type pluginAction struct {
	name, short string
	done        func(plugin string) string
}

// pluginActions are the commands for admin.Actions.
func pluginActions() []pluginAction {
	say := func(format string) func(string) string {
		return func(name string) string { return strings.ReplaceAll(format, "NAME", name) }
	}
	return []pluginAction{
		{"restart", "Stop the plugin's process in order and start a new one", say("plugin NAME restarts")},
		{"enable", "End disable: start the plugin", say("plugin NAME is enabled and starts")},
		{"disable", "Stop the plugin until it is enabled, also across restarts of the service", say("plugin NAME is disabled, until: nri-supervisor plugin enable NAME")},
		{"trip", "Open the plugin's breaker by hand: it runs, but is not called", say("plugin NAME is not called any more, until: nri-supervisor plugin reset NAME")},
		{"reset", "Close the plugin's breaker and forget its failures", say("the breaker of plugin NAME is closed and its failures are forgotten")},
		{"unquarantine", "Let the pods that harmed the plugin reach it again", say("no pod is quarantined for plugin NAME any more")},
	}
}

func newPluginAction(a pluginAction) *cobra.Command {
	var at connectFlags
	var out format
	cmd := &cobra.Command{
		Use: a.name + " NAME", Short: a.short, Args: oneName,
		Example: "  nri-supervisor plugin " + a.name + " gpu-env",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			var reply admin.ActionReply
			if reply, err = c.Act(cmd.Context(), args[0], a.name); err != nil {
				return asked(err)
			}
			return out.show(cmd.OutOrStdout(), reply, func(b *bytes.Buffer) { b.WriteString(clean(a.done(reply.Plugin)) + "\n") })
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}
