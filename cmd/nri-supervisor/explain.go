package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	at    connectFlags
	out   format
	event string
	audit string
}

func newExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain NAMESPACE/POD[/CONTAINER] | explain --event FILE [DIR|FILE]...",
		Short: "Say which plugins had to do with a pod or container, what they changed, and why not",
		Long: `Explain says for a pod and its containers of each plugin: selected or not and by
which part of its selector, what came of each event, how long it took, what it
changed (field and key, never a value), what was dropped and why; and who owns
each field now. A pod that is gone is looked for in the audit. With --audit
it reads that file and asks no running supervisor.

With --event it says which of the plugins in the folders and files given, or in
the configuration's pluginDirs, would be selected for the event in the file, by
the same code. Record writes such files.`,
		Example: `  nri-supervisor explain ml-train/job-1
  nri-supervisor explain ml-train/job-1/main -o json
  nri-supervisor explain --event 0003-CreateContainer.json plugins.d`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVar(&f.event, "event", "", "file with an event: say offline who would be selected")
	cmd.Flags().StringVar(&f.audit, "audit", "", "audit file to read instead of asking the running supervisor")
	f.at.add(cmd)
	f.out.add(cmd)
	return cmd
}

func (f *explainFlags) run(cmd *cobra.Command, args []string) error {
	var list []supervisor.Explanation
	var err error
	switch {
	case f.event != "" && f.audit != "":
		return usageError{errors.New("explain: --event and --audit exclude each other")}
	case f.event != "":
		list, err = f.offline(args, cmd.ErrOrStderr())
	default:
		list, err = f.known(cmd, args)
	}
	if err != nil {
		return err
	}
	return f.out.show(cmd.OutOrStdout(), list, func(b *paper) { writeExplanations(b, list) })
}

// known explains a pod that the supervisor or the audit knows.
func (f *explainFlags) known(cmd *cobra.Command, args []string) ([]supervisor.Explanation, error) {
	if len(args) != 1 {
		return nil, usageError{errors.New("explain: name one pod or container, as NAMESPACE/POD or NAMESPACE/POD/CONTAINER")}
	}
	parts := strings.Split(args[0], "/")
	if len(parts) < 2 || len(parts) > 3 || parts[1] == "" || len(parts) == 3 && parts[2] == "" {
		return nil, usageError{fmt.Errorf("explain: %q is not NAMESPACE/POD or NAMESPACE/POD/CONTAINER", args[0])}
	}
	parts = append(parts, "")
	if f.audit != "" {
		return supervisor.ExplainFromAudit(cmd.Context(), f.audit, parts[0], parts[1], parts[2])
	}
	c, err := f.at.client(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	list, err := c.Explain(cmd.Context(), parts[0], parts[1], parts[2])
	if err != nil {
		return nil, asked(err)
	}
	return list, nil
}

// offline explains the selection of an event in a file.
func (f *explainFlags) offline(paths []string, note io.Writer) ([]supervisor.Explanation, error) {
	ev, err := readEvent(f.event)
	if err != nil {
		return nil, err
	}
	config, err := configPath(f.at.config)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		paths = nil // the configuration's pluginDirs
	}
	cfg, err := policy.Load(policy.LoadOptions{ConfigFile: config, PluginPaths: paths, Looks: newLooks()})
	if err != nil {
		return nil, err
	}
	for _, p := range cfg.Invalid {
		if _, err := fmt.Fprintf(note, "nri-supervisor: warning: plugin %q of %s is left out, its manifest is invalid: nri-supervisor check\n", clean(p.Name), clean(p.File)); err != nil {
			return nil, fmt.Errorf("write the output: %w", err)
		}
	}
	return []supervisor.Explanation{{
		Object: journal.Object{
			Namespace: ev.Pod.GetNamespace(), Pod: ev.Pod.GetName(), PodUID: ev.Pod.GetUid(), PodID: ev.Pod.GetId(),
			Container: ev.Container.GetName(), ContainerID: ev.Container.GetId(),
		},
		Source: supervisor.ExplainedFromEvent, Plugins: supervisor.ExplainSelection(cfg.Plugins, ev.Pod, ev.Container),
	}}, nil
}

// readEvent reads an event from a file; - is the standard input.
func readEvent(path string) (*recording.Event, error) {
	in := os.Stdin
	if path != "-" {
		var err error
		if in, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("event: %w", err)
		}
		defer in.Close()
	}
	data, err := io.ReadAll(io.LimitReader(in, recording.MaxSize))
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	ev, err := recording.Decode(data)
	if err != nil {
		return nil, hintError{fmt.Errorf("%s: %w", path, err), []string{"nri-supervisor record writes such files"}}
	}
	return ev, nil
}

// writeExplanations writes for people.
func writeExplanations(b *paper, list []supervisor.Explanation) {
	for i, x := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeExplanation(b, x)
	}
}

func writeExplanation(b *paper, x supervisor.Explanation) {
	what, name := "pod", x.Namespace+"/"+x.Pod
	if x.Container != "" || x.ContainerID != "" {
		what, name = "container", name+"/"+x.Container
	}
	switch {
	case x.Source == supervisor.ExplainedFromAudit:
		name += ", gone; from the audit"
	case x.Source == supervisor.ExplainedFromEvent:
		name += ", from the event; what would be selected"
	case x.Phase != "":
		name += ", " + x.Phase
	}
	b.say(0, "%s %s", what, name)
	switch {
	case len(x.Plugins) > 0 || x.Source == supervisor.ExplainedFromAudit && len(x.Decisions) > 0:
	case x.Source == supervisor.ExplainedFromAudit: // which says nothing of those that had no part
		b.say(2, "no plugin had a part in it")
	default:
		b.say(2, "no plugin is loaded")
	}
	if len(x.Decisions) > 0 {
		b.say(2, "the supervisor itself")
	}
	for _, d := range x.Decisions {
		writeDecision(b, d, x.ContainerID)
	}
	for _, p := range x.Plugins {
		writePluginExplanation(b, p, x.ContainerID)
	}
	if len(x.Owners) > 0 {
		b.say(2, "fields now")
		for _, o := range x.Owners {
			by := "set by"
			if o.Removed {
				by = "removed by"
			}
			b.say(4, "%s %s %s (%s)", journal.Field{Field: o.Field, Key: o.Key}, by, withTeam(o.Plugin, o.Team), firstOf(o.Event, "unsolicited"))
		}
	}
	for _, n := range x.Notes {
		b.say(2, "note: %s", n)
	}
}

func writePluginExplanation(b *paper, p supervisor.PluginExplanation, container string) {
	text := withTeam(p.Plugin, p.Team) + ": " + strings.ReplaceAll(p.Match.String(), "_", " ")
	if p.Part != "" && p.Match != journal.MatchOptedOut {
		text += " by " + p.Part
		if p.Detail != "" {
			text += ": " + p.Detail
		}
	}
	b.say(2, "%s", text)
	if p.Note != "" {
		b.say(4, "note: %s", p.Note)
	}
	if w := p.Work; w != nil && len(p.Decisions) == 0 {
		b.say(4, "creation: %s", firstOf(w.Reason, w.Outcome, "done"))
	}
	for _, d := range p.Decisions {
		writeDecision(b, d, container)
	}
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// withTeam is a plugin and in brackets its team.
func withTeam(plugin, team string) string {
	if team == "" {
		return plugin
	}
	return plugin + " (team " + team + ")"
}

// winners are the plugins that a decision collided with, with their teams.
func winners(d journal.Decision) []string {
	out := make([]string, len(d.With))
	for i, name := range d.With {
		team := ""
		if i < len(d.WithTeams) { // a line of an older version has none
			team = d.WithTeams[i]
		}
		out[i] = withTeam(name, team)
	}
	return out
}

// several says how many a decision stands for, and since when.
func several(d journal.Decision) string {
	if d.Count == 0 || d.Kind == journal.KindLost {
		return ""
	}
	text := count(int(d.Count), "update") //nolint:gosec // a count of what a plugin asked for
	if !d.Since.IsZero() {
		text += " more since " + d.Since.UTC().Format("15:04:05.000")
	}
	return text
}

// writeDecision writes one decision about a plugin's part.
func writeDecision(b *paper, d journal.Decision, container string) {
	text := stamp(d.Time) + " " + firstOf(d.Event, string(d.Kind)) + ": " + firstOf(d.Reason, d.Outcome, "no call")
	if d.TookSeconds > 0 {
		text += " in " + time.Duration(d.TookSeconds*float64(time.Second)).Round(10*time.Microsecond).String()
	}
	b.say(4, "%s, %s", text, strings.ReplaceAll(strings.Join(nonEmpty(d.Action.String(), several(d)), ", "), "_", " "))
	line := func(word string, fields []journal.Field) {
		if len(fields) == 0 {
			return
		}
		names := make([]string, len(fields))
		for i, f := range fields {
			if f.Container == container {
				f.Container = ""
			}
			names[i] = f.String()
		}
		text := word + " " + strings.Join(names, ", ")
		if word == "dropped for" && len(d.With) > 0 {
			text += ", set by " + strings.Join(winners(d), ", ")
		}
		b.say(6, "%s", text)
	}
	line("changed", d.Changed)
	line("dropped for", d.Dropped)
	if d.Detail != "" {
		b.say(6, "%s", d.Detail)
	}
}
