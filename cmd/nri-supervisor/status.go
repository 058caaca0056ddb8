package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

// stateInvalid is the state of a plugin whose manifest cannot be used (design §10).
const stateInvalid = "invalid"

// What stands before an error below a plugin's row.
const (
	lastErrorIs = "last error: "
	staleIs     = "runs its last good version: "
)

func newStatus() *cobra.Command {
	var at connectFlags
	var out format
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the runtime connection and the state of every plugin",
		Long: `Status answers: is it us, which plugin, whose, since when. It shows the
connection to the runtime and the configuration in force, then each plugin, and
below a plugin that is not in service why, and whom to ask. SINCE is when the
plugin came into service or began to fail. With --watch it looks every two
seconds until it is interrupted; with -o json each look is a line.`,
		Example: `  nri-supervisor status
  nri-supervisor status --watch`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if watch {
				return watchStatus(cmd.Context(), c, cmd.OutOrStdout(), out, watchEvery)
			}
			st, err := c.Status(cmd.Context())
			if err != nil {
				return asked(err)
			}
			return out.show(cmd.OutOrStdout(), st, func(b *paper) { writeStatus(b, st, time.Now()) })
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "look again every two seconds")
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// writeStatus is the status for people.
func writeStatus(b *paper, st supervisor.Status, now time.Time) {
	f := fields{b, len("supervisor ")}
	f.line("supervisor", fmt.Sprintf("version %s, up for %s, knows %s and %s",
		st.Version, sinceText(now, st.Started), count(st.Pods, "pod"), count(st.Ctrs, "container")))
	writeRuntime(f, st.Runtime, now)
	if st.Bypass != nil {
		f.line("bypass", bypassText(*st.Bypass, now))
	}
	missed := 0
	var reasons []supervisor.ReasonSum
	var out, look []string
	for _, p := range st.Plugins {
		if len(statuspage.LookTexts(p, now)) > 0 {
			look = append(look, p.Name)
		}
		if !inService(p) {
			out = append(out, firstOf(p.Name, p.ManifestFile))
		}
		missed += p.Missed
		reasons = addReasons(reasons, p.MissedBy)
	}
	text := "%d of %d in service"
	if st.Bypass != nil {
		text = "%d of %d would be in service without the bypass"
	}
	text = fmt.Sprintf(text, len(st.Plugins)-len(out), len(st.Plugins)+st.MoreInvalid)
	if len(out) > 0 {
		text += "; not: " + strings.Join(out, ", ")
	}
	if len(look) > 0 {
		text += "; needs a look: " + strings.Join(look, ", ")
	}
	if st.MoreInvalid > 0 {
		text += fmt.Sprintf(", and %d more whose manifests cannot be used", st.MoreInvalid)
	}
	f.line("plugins", text)
	if missed > 0 {
		text := count(missed, "time") + " a container runs without a plugin's work"
		if len(reasons) > 0 {
			text += ": " + sums(reasons)
		}
		f.line("missed", text)
		f.line("", "list them: nri-supervisor missed")
	}
	if st.Refused > 0 {
		f.line("refused", refusedText(st))
		f.line("", "list them: nri-supervisor events --action failed")
	}
	writeConfig(f, st)
	for _, w := range st.Warnings {
		f.line("warning", w)
	}
	if len(st.Plugins) == 0 {
		return
	}
	b.WriteByte('\n')
	t := table{head: []string{"PLUGIN", "TEAM", "STATE", "BREAKER", "MISSED", "REFUSED", "SINCE"}}
	for _, p := range st.Plugins {
		t.row(trouble(st, p, now), p.Name, p.Team, p.State, p.Breaker.State, counted(p, p.Missed), counted(p, p.Refused), moment(now, statuspage.Since(p, now)))
	}
	t.render(b)
}

// addReasons adds counts by reason, the largest first.
func addReasons(sum, more []supervisor.ReasonSum) []supervisor.ReasonSum {
	for _, m := range more {
		if i := slices.IndexFunc(sum, func(r supervisor.ReasonSum) bool { return r.Reason == m.Reason }); i >= 0 {
			sum[i].Count += m.Count
		} else {
			sum = append(sum, supervisor.ReasonSum{Reason: m.Reason, Count: m.Count})
		}
	}
	slices.SortFunc(sum, func(a, b supervisor.ReasonSum) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return sum
}

// counted is a number about a plugin; "-" for one that is not hosted, of which nothing is counted.
func counted(p supervisor.PluginStatus, n int) string {
	if p.State == stateInvalid {
		return "-"
	}
	return strconv.Itoa(n)
}

// refusedText counts the requests that failed for plugins' sake.
func refusedText(st supervisor.Status) string {
	text := count(st.Refused, "time") + " the runtime was told no for a plugin's sake, since the start"
	if st.RefusedUnhosted > 0 {
		text += fmt.Sprintf("; %d of them for what is required and not hosted", st.RefusedUnhosted)
	}
	return text
}

func writeRuntime(f fields, r supervisor.RuntimeStatus, now time.Time) {
	if r.Connected {
		text := fmt.Sprintf("connected to %s %s", r.Name, r.Version)
		if r.NRIVersion != "" {
			text += " (NRI " + r.NRIVersion + ")"
		}
		text += " for " + sinceText(now, r.Since)
		if r.RequestTimeout != "" {
			text += ", which gives " + r.RequestTimeout + " a request"
		}
		f.line("runtime", text)
		return
	}
	if r.Reason == "" {
		f.line("runtime", "not connected yet, to "+r.Socket)
		return
	}
	f.line("runtime", fmt.Sprintf("not connected for %s: %s: %s", sinceText(now, r.Since), r.Reason, r.Error))
	f.line("", r.Hint)
}

// writeConfig is about the configuration in force. Problems that stand below a plugin's row are only counted.
func writeConfig(f fields, st supervisor.Status) {
	const shown = 12 // digits of the hash: enough to tell two configurations apart
	hash := st.Config.Hash[:min(len(st.Config.Hash), shown)]
	switch problems := count(len(st.Config.Problems)+st.Config.MoreProblems, "problem"); {
	case len(st.Config.Problems) > 0:
		f.line("config", hash+", "+problems)
	case st.Config.MoreProblems > 0:
		f.line("config", hash+", "+problems+": nri-supervisor check")
		return
	default:
		f.line("config", hash+", no problems")
		return
	}
	below := map[string]bool{}
	for _, p := range st.Plugins {
		for _, problem := range p.Problems {
			below[problem] = true
		}
	}
	for _, problem := range st.Config.Problems {
		if !below[problem] {
			f.line("", problem)
		}
	}
	if n := st.Config.MoreProblems; n > 0 {
		f.line("", fmt.Sprintf("%d are not listed: nri-supervisor check", n))
	}
}

// bypassText says until when no plugin is called, and how to end that.
func bypassText(until, now time.Time) string {
	return fmt.Sprintf("no plugin is called until %s (%s left); end it: nri-supervisor bypass --off", stamp(until), age(until.Sub(now)))
}

// inService says whether a plugin does its work now.
func inService(p supervisor.PluginStatus) bool { return p.InService() }

// trouble says why a plugin is not in service, and whom to ask.
func trouble(st supervisor.Status, p supervisor.PluginStatus, now time.Time) []string {
	if waitsForRuntime(st, p) && p.Breaker.State == breaker.StateClosed.String() {
		return []string{"waits for the runtime"} // nothing that its team could do
	}
	notes := nonEmpty(staleText(p))
	if inService(p) {
		if n := len(p.Quarantined); n > 0 {
			notes = append(notes, count(n, "pod")+" quarantined: nri-supervisor plugin show "+p.Name)
		}
		if look := statuspage.LookTexts(p, now); len(look) > 0 {
			notes = append(append(notes, look...), nonEmpty(ask(p))...)
		}
		return notes
	}
	if p.State == stateInvalid {
		notes = append(notes, p.Problems...)
	} else {
		notes = append(notes, strings.Join(nonEmpty(stateText(p, now), breakerText(p.Breaker, now)), "; "))
		notes = append(notes, nonEmpty(awaitedText(p, now), manualEnd(p))...)
		notes = append(notes, nonEmpty(statuspage.MeanwhileText(p), flapText(p, now), openedText(p.Breaker, now))...)
		if p.Breaker.State == breaker.StateHalfOpen.String() {
			notes = append(notes, "waits: "+statuspage.WaitText(p.Breaker.WaitsFor))
		}
		if p.LastError != "" {
			notes = append(notes, lastErrorIs+p.LastError)
		}
		if n := len(p.Quarantined); n > 0 {
			notes = append(notes, count(n, "pod")+" quarantined")
		}
	}
	return append(notes, nonEmpty(ask(p))...)
}

// ask says whom to ask about a plugin; "" where nobody is named.
func ask(p supervisor.PluginStatus) string {
	if p.Contact == "" {
		return ""
	}
	return "ask " + p.Contact
}

// flapText says that a plugin whose breaker is open or tried has been failing for longer than that; "" for another.
func flapText(p supervisor.PluginStatus, now time.Time) string {
	switch p.Breaker.State {
	case breaker.StateOpen.String(), breaker.StateHalfOpen.String():
		return statuspage.FlapText(p, now)
	default:
		return ""
	}
}

// awaitedText says that nobody has attached as a plugin; "" for another.
func awaitedText(p supervisor.PluginStatus, now time.Time) string {
	if p.Awaited == "" {
		return ""
	}
	return "nobody is connected to " + p.Awaited + " since " + stamp(p.Since) + " (" + age(now.Sub(p.Since)) + "): start the plugin where it runs"
}

// staleText says that what runs is older than the manifest; "" if it is not.
func staleText(p supervisor.PluginStatus) string {
	if p.Stale == "" {
		return ""
	}
	return staleIs + p.Stale
}

// waitsForRuntime says whether a plugin is there and only the runtime is missing.
func waitsForRuntime(st supervisor.Status, p supervisor.PluginStatus) bool {
	return p.State == plugin.Syncing.String() && !st.Runtime.Connected
}

// manualEnd says how to end what an operator did to a plugin; "" when nobody did anything.
func manualEnd(p supervisor.PluginStatus) string {
	switch {
	case disabled(p):
		return "end it: nri-supervisor plugin enable " + p.Name
	case p.Breaker.State == breaker.StateForcedOpen.String():
		return "end it: nri-supervisor plugin reset " + p.Name
	default:
		return ""
	}
}

// stateText is about the life of a plugin that is not ready; "" for one that is.
func stateText(p supervisor.PluginStatus, now time.Time) string {
	if p.State == plugin.Ready.String() || p.Since.IsZero() {
		return ""
	}
	text := p.State + " for " + sinceText(now, p.Since)
	if p.Restarts > 0 {
		text += ", " + count(p.Restarts, "restart")
	}
	return text + nextStart(p, now)
}

// nextStart says when a plugin is started again; "" for one that is not about to be.
func nextStart(p supervisor.PluginStatus, now time.Time) string {
	if left := p.NextStart.Sub(now); !p.NextStart.IsZero() && left > 0 {
		return ", next start in " + age(left)
	}
	return ""
}

// breakerText is about a breaker that is not closed; "" for one that is, and for one of a disabled plugin, whose state says so.
func breakerText(v supervisor.BreakerView, now time.Time) string {
	if v.State == breaker.StateClosed.String() || v.State == breaker.StateDisabled.String() || v.State == "" {
		return ""
	}
	text := "breaker " + v.State
	if v.Cause != "" {
		text += " (" + v.Cause + ")"
	}
	if !v.Since.IsZero() {
		text += " for " + sinceText(now, v.Since)
	}
	if v.OpenUntil != nil {
		if left := v.OpenUntil.Sub(now); left > 0 {
			text += ", tries again in " + age(left)
		} else {
			text += ", tries again at the next event or synchronization"
		}
	}
	return text
}

// openedText says why a breaker that is not closed was opened; "" where there is nothing more to say.
func openedText(v supervisor.BreakerView, now time.Time) string {
	o := v.Opening
	if o == nil || !o.Closed.IsZero() || v.State == breaker.StateDisabled.String() {
		return ""
	}
	text := "opened " + ago(now, o.At) + " by " + o.Cause + ": " + statuspage.CauseText(o.Cause)
	if o.Again > 0 {
		text += "; " + count(o.Again, "trial") + " failed since"
	}
	return text
}

func nonEmpty(texts ...string) []string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}
