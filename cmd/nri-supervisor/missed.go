package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

func newMissed() *cobra.Command {
	var at connectFlags
	var out format
	var name string
	cmd := &cobra.Command{
		Use:   "missed",
		Short: "List the containers that run without a plugin's work, and say what to do",
		Long: `Missed lists each living container that runs without the work of a plugin that
selected it, with the reason and since when. It exits with 0 also when there are
some.`,
		Example: `  nri-supervisor missed
  nri-supervisor missed --plugin gpu-env -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			list, err := askMissed(cmd.Context(), c, name, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return out.show(cmd.OutOrStdout(), list, func(b *paper) { writeMissed(b, list, name, time.Now()) })
		},
	}
	cmd.Flags().StringVar(&name, "plugin", "", "only the work of this plugin")
	completeFlag(cmd, "plugin", at.completePlugins(anyFlag))
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// askMissed asks for the list of one plugin, or of all when name is empty. It tells note why an answer may not be the whole truth: an empty list must be no false comfort.
func askMissed(ctx context.Context, c *admin.Client, name string, note io.Writer) ([]supervisor.MissedWork, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return nil, asked(err)
	}
	if name != "" {
		if _, err := findPlugin(st, name); err != nil {
			return nil, err
		}
	}
	list, err := c.Missed(ctx)
	if err != nil {
		return nil, asked(err)
	}
	if !st.Runtime.Connected {
		_, err := fmt.Fprintln(note, "nri-supervisor: note: not connected to the runtime, so containers may be missing here: nri-supervisor status")
		if err != nil {
			return nil, fmt.Errorf("write the output: %w", err)
		}
	}
	return slices.DeleteFunc(list, func(m supervisor.MissedWork) bool { return name != "" && m.Plugin != name }), nil
}

// findPlugin returns the status of a plugin, or an error that names those there are.
func findPlugin(st supervisor.Status, name string) (supervisor.PluginStatus, error) {
	var known []string
	for _, p := range st.Plugins {
		if p.Name == name && name != "" {
			return p, nil
		}
		if p.Name != "" {
			known = append(known, clean(p.Name))
		}
	}
	hint := "no plugin is loaded"
	if len(known) > 0 {
		hint = "known are: " + strings.Join(known, ", ")
	}
	return supervisor.PluginStatus{}, hintError{fmt.Errorf("no such plugin: %q", name), []string{hint}}
}

// writeMissed is the list for people.
func writeMissed(b *paper, list []supervisor.MissedWork, name string, now time.Time) {
	if len(list) == 0 {
		if name != "" {
			fmt.Fprintf(b, "No container runs without the work of plugin %s.\n", clean(name))
			return
		}
		b.WriteString("No container runs without a plugin's work.\n")
		return
	}
	t := table{head: []string{"NAMESPACE/POD", "CONTAINER", "PLUGIN", "TEAM", "REASON", "SINCE"}}
	containers := map[string]bool{}
	var reasons []supervisor.ReasonSum
	for _, m := range list {
		t.row(nil, m.Namespace+"/"+m.Pod, m.Container, m.Plugin, m.Team, m.Reason, moment(now, m.At))
		containers[m.ContainerID] = true
		reasons = addReasons(reasons, []supervisor.ReasonSum{{Reason: m.Reason, Count: 1}})
	}
	t.render(b)
	b.WriteByte('\n')
	verb := " run"
	if len(containers) == 1 {
		verb = " runs"
	}
	times := ""
	if len(list) != len(containers) { // one may miss the work of several
		times = ", " + count(len(list), "time") + " in all"
	}
	wrap(b, "", count(len(containers), "container")+verb+" without a plugin's work"+times+" ("+sums(reasons)+"). What to do: see that the plugin is in service (nri-supervisor status), "+
		"then delete the pod so that it is created again:")
	b.WriteString("  kubectl delete pod -n NAMESPACE POD\n")
	if slices.ContainsFunc(list, func(m supervisor.MissedWork) bool { return m.Reason == "state_lost" }) {
		wrap(b, "", "state_lost: these may have the work. They were created before the service started, and what it remembered of them is lost. Look into them first.")
	}
}
