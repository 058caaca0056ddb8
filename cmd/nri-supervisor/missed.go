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
			list, unknown, err := askMissed(cmd.Context(), c, name, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return out.show(cmd.OutOrStdout(), list, func(b *paper) { writeMissed(b, list, name, unknown, time.Now()) })
		},
	}
	cmd.Flags().StringVar(&name, "plugin", "", "only the work of this plugin")
	completeFlag(cmd, "plugin", at.completePlugins(anyFlag))
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// askMissed asks for the list of one plugin, or of all when name is empty. It tells note why an answer may not be the whole truth: an empty list must be no false comfort. unknown says that nothing can
// be known of what is asked for.
func askMissed(ctx context.Context, c *admin.Client, name string, note io.Writer) (list []supervisor.MissedWork, unknown bool, err error) {
	st, err := c.Status(ctx)
	if err != nil {
		return nil, false, asked(err)
	}
	var notes []string
	for _, p := range st.Plugins {
		if p.State == stateInvalid && (name == "" || p.Name == name) {
			notes = append(notes, notHosted(p, time.Now()))
			unknown = name != ""
		}
	}
	if name == "" && st.MoreInvalid > 0 {
		notes = append(notes, fmt.Sprintf("%d more plugins are not hosted, because their manifests are invalid: nri-supervisor check", st.MoreInvalid))
	}
	if name != "" {
		if _, err := findPlugin(st, name); err != nil {
			return nil, false, err
		}
	}
	list, err = c.Missed(ctx)
	if err != nil {
		return nil, false, asked(err)
	}
	if !st.Runtime.Connected {
		notes = append(notes, "not connected to the runtime, so containers may be missing here: nri-supervisor status")
	}
	for _, text := range notes {
		if err := write(note, []byte("nri-supervisor: note: "+text+"\n")); err != nil {
			return nil, false, err
		}
	}
	return slices.DeleteFunc(list, func(m supervisor.MissedWork) bool { return name != "" && m.Plugin != name }), unknown, nil
}

// notHosted says that nobody counts the missing work of a plugin whose manifest is invalid, and why.
func notHosted(p supervisor.PluginStatus, now time.Time) string {
	text := "plugin " + clean(firstOf(p.Name, p.ManifestFile)) + " is not hosted"
	if !p.Since.IsZero() {
		text += " for " + sinceText(now, p.Since)
	}
	text += ", because its manifest is invalid, so which containers it would have selected is not known"
	if why := firstOf(append(slices.Clone(p.Problems), p.LastError)...); why != "" {
		text += ": " + clean(strings.Join(strings.Fields(why), " "))
	}
	return text
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

// writeMissed is the list for people. unknown says that an empty one is no answer.
func writeMissed(b *paper, list []supervisor.MissedWork, name string, unknown bool, now time.Time) {
	if len(list) == 0 {
		if unknown {
			fmt.Fprintf(b, "It is not known which containers run without the work of plugin %s.\n", clean(name))
			return
		}
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
