package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

// eventsFlags are the flags of events.
type eventsFlags struct {
	filter journal.Filter
	pod    string
	action string
	follow bool
}

func newEvents() *cobra.Command {
	var at connectFlags
	var out format
	var f eventsFlags
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show or follow what was decided: each plugin's part in each event",
		Long: `Events shows the latest decisions, one a line: when, which plugin, on which
container, what came of it and why. With --follow it goes on until it is
interrupted or the service ends. With -o json each line is one JSON object.`,
		Example: `  nri-supervisor events --notable
  nri-supervisor events --follow --plugin gpu-env
  nri-supervisor events --pod ml-training/bert-0 --outcome timeout`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			list, err := f.first(cmd.Context(), c, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if out == formatTable {
				if err := tellFlaps(cmd.Context(), c, f.filter, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			each := func(d journal.Decision) error { return printDecision(cmd.OutOrStdout(), d, out) }
			if f.follow {
				err = c.FollowDecisions(cmd.Context(), f.filter, each)
				if errors.Is(err, context.Canceled) {
					return nil // interrupted, as it is meant to end
				}
				return asked(err)
			}
			for _, d := range list {
				if err := each(d); err != nil {
					return err
				}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.follow, "follow", "f", false, "go on with what is decided from now on")
	fl.IntVar(&f.filter.Last, "last", 50, "so many of the latest; 0 is all that is remembered, or with --follow none")
	fl.StringVar(&f.filter.Plugin, "plugin", "", "only this plugin")
	completeFlag(cmd, "plugin", at.completePlugins(anyFlag))
	fl.StringVar(&f.filter.Team, "team", "", "only plugins of this team")
	completeFlag(cmd, "team", at.completeTeams())
	fl.StringVar(&f.pod, "pod", "", "only this pod: NAME or NAMESPACE/NAME")
	fl.StringVar(&f.filter.Event, "event", "", "only this event, such as CreateContainer")
	fl.StringVar(&f.filter.Outcome, "outcome", "", "only this outcome or reason, such as timeout or breaker_open")
	fl.StringVar(&f.action, "action", "", "only what came to this, such as ignored or failed")
	completeFlag(cmd, "event", completeNames(supervisor.EventNames()...))
	completeFlag(cmd, "outcome", completeNames(supervisor.OutcomeNames()...))
	completeFlag(cmd, "action", completeValues(journal.Actions()...))
	fl.BoolVar(&f.filter.Notable, "notable", false, "only what changed, denied, refused or missed something")
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// tellFlaps tells note which of the plugins that the filter picks have been failing for longer than their latest decisions show, or are tried while containers are refused.
func tellFlaps(ctx context.Context, c *admin.Client, f journal.Filter, note io.Writer) error {
	st, err := c.Status(ctx)
	if err != nil {
		return asked(err)
	}
	for _, p := range st.Plugins {
		text := statuspage.FlapText(p, time.Now())
		if p.Breaker.State == breaker.StateHalfOpen.String() && p.FailsClosed {
			text = strings.Join(nonEmpty(text, "its breaker is half_open", statuspage.MeanwhileText(p)), "; ")
		}
		if text == "" || f.Plugin != "" && f.Plugin != p.Name || f.Team != "" && f.Team != p.Team {
			continue
		}
		if err := write(note, []byte("nri-supervisor: note: plugin "+clean(p.Name)+": "+text+": nri-supervisor plugin show "+clean(p.Name)+"\n")); err != nil {
			return err
		}
	}
	return nil
}

// check reads the flags that need it.
func (f *eventsFlags) check() error {
	f.filter.Namespace, f.filter.Pod = "", f.pod
	if namespace, pod, ok := strings.Cut(f.pod, "/"); ok {
		f.filter.Namespace, f.filter.Pod = namespace, pod
		if namespace == "" || pod == "" || strings.Contains(pod, "/") {
			return usageError{hintError{fmt.Errorf("--pod %q is neither NAME nor NAMESPACE/NAME", f.pod), []string{podHint}}}
		}
	}
	if f.filter.Last < 0 {
		return usageError{fmt.Errorf("--last %d is below zero", f.filter.Last)}
	}
	f.filter.Action = journal.Action(f.action)
	return nil
}

// podHint says how to name a pod.
const podHint = "write --pod bert-0 or --pod ml-training/bert-0, without a container; nri-supervisor explain takes NAMESPACE/POD/CONTAINER"

// podName matches the names that Kubernetes gives to pods, with or without a namespace: DNS subdomains and labels, RFC 1123.
const podName = `^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`

// first asks for the decisions once, so that what the supervisor refuses is refused before anything else is said. Of a pod of which nothing is remembered it tells note, and returns an error if
// Kubernetes has no pod of such a name: a runtime may have one all the same.
func (f *eventsFlags) first(ctx context.Context, c *admin.Client, note io.Writer) ([]journal.Decision, error) {
	list, err := c.Decisions(ctx, f.filter)
	if err != nil {
		return nil, asked(err)
	}
	if f.pod == "" || len(list) > 0 {
		return list, nil
	}
	about, err := c.Decisions(ctx, journal.Filter{Namespace: f.filter.Namespace, Pod: f.filter.Pod, Last: 1})
	switch {
	case err != nil:
		return nil, asked(err)
	case len(about) > 0:
		return list, nil
	case !regexp.MustCompile(podName).MatchString(f.pod):
		return nil, hintError{fmt.Errorf("no pod can have the name %q", f.pod), []string{podHint}}
	}
	return list, write(note, []byte("nri-supervisor: note: nothing is remembered of a pod "+clean(f.pod)+" on this node; older decisions: nri-supervisor explain NAMESPACE/POD\n"))
}

// printDecision writes one decision as a line.
func printDecision(w io.Writer, d journal.Decision, out format) error {
	if out == formatTable {
		b := paperFor(w)
		hang(b, "", noteIndent, decisionLine(d))
		return write(w, b.Bytes())
	}
	return out.showLine(w, d)
}

// decisionLine is one decision for people: the time, whose it is, what it is about, what came of it, and why.
func decisionLine(d journal.Decision) string {
	parts := []string{stamp(d.Time)}
	if d.Plugin != "" {
		parts = append(parts, d.Plugin+nameInBrackets(d.Team))
	}
	if d.Event != "" {
		parts = append(parts, d.Event)
	}
	if d.Pod != "" {
		parts = append(parts, d.Namespace+"/"+d.Pod+nameInBrackets(d.Container))
	}
	line := strings.Join(parts, " ") + ": " + strings.Join(nonEmpty(decisionText(d), several(d), d.Reason, d.Detail), ", ")
	more := []string{line}
	for _, list := range []struct {
		what   string
		fields []journal.Field
	}{{"changed", d.Changed}, {"dropped", d.Dropped}} {
		if len(list.fields) == 0 {
			continue
		}
		names := make([]string, len(list.fields))
		for i, field := range list.fields {
			names[i] = field.String()
		}
		more = append(more, list.what+" "+strings.Join(names, " "))
	}
	line = strings.Join(more, "; ")
	if len(d.With) > 0 {
		line += "; with " + strings.Join(winners(d), ", ")
	}
	if d.TookSeconds > 0 {
		line += " (" + time.Duration(d.TookSeconds*float64(time.Second)).Round(100*time.Microsecond).String() + ")"
	}
	return line
}

// decisionText is what came of it.
func decisionText(d journal.Decision) string {
	switch d.Kind {
	case journal.KindManual:
		text := "an operator did " + d.Manual
		if d.ForSeconds > 0 {
			text += " for " + age(time.Duration(d.ForSeconds*float64(time.Second)))
		}
		return text
	case journal.KindLost:
		return count(int(d.Count), "decision") + " lost, since this command was slow" //nolint:gosec // a count of what fits into memory
	case journal.KindSelection:
		names := make([]string, len(d.NotMatched))
		for i, n := range d.NotMatched {
			names[i] = n.Plugin + nameInBrackets(n.Part)
		}
		return "not selected by " + strings.Join(names, " ")
	case journal.KindEvent, journal.KindUpdate, journal.KindMissed:
	}
	return string(d.Action)
}

func nameInBrackets(name string) string {
	if name == "" {
		return ""
	}
	return "(" + name + ")"
}
