package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// pluginAction is a command that changes a plugin, and what it says when that was taken note of.
type pluginAction struct {
	name, short string
	// done is the confirmation; NAME stands for the plugin's name.
	done string
	// idle is the confirmation when the plugin was not in what the action ends; empty for an action that always does something.
	idle string
	// ends says whether the plugin is in what the action ends; nil when idle is empty.
	ends func(supervisor.PluginStatus) bool
	// sets is the state of the breaker that the action sets by hand, which the confirmation tells already; empty when it sets none.
	sets string
}

// pluginActions are the commands for admin.Actions.
func pluginActions() []pluginAction {
	return []pluginAction{
		{name: "restart", short: "Stop the plugin's process in order and start a new one", done: "plugin NAME restarts"},
		{
			name: "enable", short: "End disable: start the plugin",
			done: "plugin NAME is enabled and starts", idle: "plugin NAME was not disabled: nothing changes", ends: disabled,
		},
		{
			name: "disable", short: "Stop the plugin until it is enabled, also across restarts of the service",
			done: "plugin NAME is disabled, until: nri-supervisor plugin enable NAME", sets: breaker.StateDisabled.String(),
		},
		{
			name: "trip", short: "Open the plugin's breaker by hand: it runs, but is not called",
			done: "plugin NAME is not called any more, until: nri-supervisor plugin reset NAME", sets: breaker.StateForcedOpen.String(),
		},
		{name: "reset", short: "Close the plugin's breaker and forget its failures", done: "the breaker of plugin NAME is closed and its failures are forgotten"},
		{
			name: "unquarantine", short: "Let the pods that harmed the plugin reach it again",
			done: "no pod is quarantined for plugin NAME any more", idle: "no pod was quarantined for plugin NAME: nothing changes",
			ends: func(p supervisor.PluginStatus) bool { return len(p.Quarantined) > 0 },
		},
	}
}

func newPluginAction(a pluginAction) *cobra.Command {
	var at connectFlags
	var out format
	cmd := &cobra.Command{
		Use: a.name + " NAME", Short: a.short, Args: oneName, ValidArgsFunction: at.completePlugins(1),
		Example: "  nri-supervisor plugin " + a.name + " gpu-env",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			before, err := look(cmd.Context(), c)
			if err != nil {
				return err
			}
			var reply admin.ActionReply
			if reply, err = c.Act(cmd.Context(), args[0], a.name); err != nil {
				return askedTo(err)
			}
			after, _ := look(cmd.Context(), c) // it is done, whatever comes now
			return out.show(cmd.OutOrStdout(), reply, func(b *paper) { b.WriteString(clean(a.confirm(reply.Plugin, before, after)) + "\n") })
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// confirm says what the action did, by the status before and after it, nil if it is not known, and what keeps the plugin from being called all the same.
func (a pluginAction) confirm(name string, before, after *supervisor.Status) string {
	text := a.done
	if p, ok := pluginOf(before, name); ok && a.ends != nil && !a.ends(p) {
		text = a.idle
	}
	parts := []string{strings.ReplaceAll(text, "NAME", name)}
	if p, ok := pluginOf(after, name); ok && p.Breaker.State != a.sets {
		switch p.Breaker.State {
		case breaker.StateDisabled.String():
			parts = append(parts, "it is disabled and does not run, until: nri-supervisor plugin enable "+name)
		case breaker.StateForcedOpen.String():
			parts = append(parts, "it is tripped and is not called, until: nri-supervisor plugin reset "+name)
		}
	}
	if after != nil && after.Bypass != nil {
		parts = append(parts, "the bypass keeps every plugin from being called until "+stamp(*after.Bypass))
	}
	return strings.Join(parts, "; ")
}

func disabled(p supervisor.PluginStatus) bool {
	return p.State == plugin.Disabled.String() || p.Breaker.State == breaker.StateDisabled.String()
}

func pluginOf(st *supervisor.Status, name string) (supervisor.PluginStatus, bool) {
	if st == nil {
		return supervisor.PluginStatus{}, false
	}
	i := slices.IndexFunc(st.Plugins, func(p supervisor.PluginStatus) bool { return p.Name == name })
	if i < 0 {
		return supervisor.PluginStatus{}, false
	}
	return st.Plugins[i], true
}
