package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/doctor"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// The longest names that there can be: of a plugin and a container (63), of a team in a label of Kubernetes (63), of a namespace (63) and of a pod (253).
func longPlugin() string { return strings.Repeat("gpu-plugin-", 6)[:63] }
func longTeam() string   { return strings.Repeat("team_", 13)[:63] }
func longPod() string    { return strings.Repeat("training-job.", 20)[:253] }
func longWord() string   { return strings.Repeat("ctr", 21) }

// longNamed is a plugin with the longest names, and everything about it of the longest pod.
func longNamed(p supervisor.PluginStatus) supervisor.PluginStatus {
	p.Name, p.Team, p.ManifestFile = longPlugin(), longTeam(), "/etc/nri-supervisor/plugins.d/"+longPlugin()+".yaml"
	p.LastError = "CreateContainer of pod " + longWord() + "/" + longPod() + ": timeout"
	p.Quarantined = []string{longWord() + "/" + longPod()}
	x := &supervisor.Failure{At: fakeNow(), Event: "CreateContainer", Namespace: longWord(), Pod: longPod(), Container: longWord(), Reason: "timeout", Detail: "no answer in 500ms"}
	p.Breaker.Opening = &supervisor.Opening{At: fakeNow(), Cause: "consecutive_failures", First: x, Last: x}
	p.Exits = []supervisor.ExitRecord{{PID: 1, Reason: "hung", At: fakeNow(), InFlight: "CreateContainer of " + longWord() + "/" + longPod(), Output: []string{strings.Repeat("0123456789", 20)}}}
	return p
}

// TestNoLineIsWiderThanTheTerminalAndNothingIsCutOff looks at every command that shows names, on 80 columns and in a pipe.
func TestNoLineIsWiderThanTheTerminalAndNothingIsCutOff(t *testing.T) {
	t.Parallel()
	st := troubled(fakeNow())
	st.Plugins[1] = longNamed(st.Plugins[1])
	missed := []supervisor.MissedWork{{Namespace: longWord(), Pod: longPod(), Container: longWord(), ContainerID: "c", Plugin: longPlugin(), Team: longTeam(), Reason: "breaker_open", At: fakeNow()}}
	d := someDecisions()[1]
	d.Namespace, d.Pod, d.Container, d.Plugin, d.Team = longWord(), longPod(), longWord(), longPlugin(), longTeam()
	d.Dropped, d.With, d.WithTeams = []journal.Field{{Field: "Mounts", Key: "/" + longPod()}}, []string{longPlugin() + "2"}, []string{longTeam()}
	explained := []supervisor.Explanation{{
		Object: d.Object, Source: supervisor.ExplainedLive, Phase: "created",
		Plugins: []supervisor.PluginExplanation{{Plugin: longPlugin(), Team: longTeam(), Match: journal.MatchSelected, Decisions: []journal.Decision{d}}},
		Owners:  []journal.Owner{{Field: "Env", Key: longPod(), Plugin: longPlugin(), Team: longTeam()}},
	}}
	freedoms := []pluginSecurity{{longPlugin(), longTeam(), "standard", []freedom{{"files", "all but writing to /" + longPod(), limited, "sandbox: {profile: strict}"}}}}
	report := doctor.Report{Result: doctor.Problem, Findings: []doctor.Finding{{
		Check: doctor.Timeouts, Result: doctor.Problem, What: "plugin " + longPlugin() + " of team " + longTeam() + ": the timeout of 3s is longer than the runtime's",
		Where: "/etc/nri-supervisor/plugins.d/" + longPlugin() + ".yaml:7", Value: longPod(), Mend: "shorten it",
	}}}
	for _, c := range []struct {
		name  string
		write func(*paper)
		whole []string // must be there
	}{
		{"status", func(b *paper) { writeStatus(b, st, fakeNow()) }, []string{longPlugin(), longTeam(), longPod(), "crash_loop", "timeout"}},
		{"plugin-list", func(b *paper) { writePlugins(b, st, fakeNow()) }, []string{longPlugin(), longTeam(), "crash_loop"}},
		{"plugin-show", func(b *paper) { writePlugin(b, st, st.Plugins[1], fakeNow()) }, []string{longPlugin(), longTeam(), longPod(), "not_ready", "consecutive_failures"}},
		{"missed", func(b *paper) { writeMissed(b, missed, "", false, fakeNow()) }, []string{longPlugin(), longTeam(), longPod(), "breaker_open"}},
		{"events", func(b *paper) { hang(b, "", noteIndent, decisionLine(d)) }, []string{longPlugin(), longTeam(), longPod(), "timeout"}},
		{"explain", func(b *paper) { writeExplanations(b, explained) }, []string{longPlugin(), longTeam(), longPod(), "timeout"}},
		{"security", func(b *paper) { writeSecurity(b, freedoms) }, []string{longPlugin(), longTeam(), longPod()}},
		{"doctor", func(b *paper) { writeReport(b, report) }, []string{longPlugin(), longTeam(), longPod(), "3s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			screen, pipe := paper{width: usualWidth}, paper{}
			c.write(&screen)
			c.write(&pipe)
			golden(t, "narrow/"+c.name+".txt", screen.String())
			for line := range strings.Lines(screen.String()) {
				if n := columns(strings.TrimSuffix(line, "\n")); n > usualWidth {
					t.Errorf("a line has %d columns: %q", n, line)
				}
			}
			joined := strings.Join(strings.Fields(screen.String()), "")
			for _, want := range c.whole {
				if !strings.Contains(joined, want) {
					t.Errorf("on the terminal %q is not whole", want)
				}
				if !slices.ContainsFunc(strings.Split(pipe.String(), "\n"), func(l string) bool { return strings.Contains(l, want) }) {
					t.Errorf("in a pipe %q is not on one line:\n%s", want, &pipe)
				}
			}
			for _, text := range []string{screen.String(), pipe.String()} {
				if strings.Contains(text, "\x1b") {
					t.Errorf("a control sequence: %q", text)
				}
			}
		})
	}
}

func TestInAPipeARowIsALine(t *testing.T) {
	t.Parallel()
	st := troubled(fakeNow())
	st.Plugins = []supervisor.PluginStatus{longNamed(st.Plugins[0])}
	st.Plugins[0].Quarantined = nil
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: st, Missing: missing(fakeNow())}})
	for args, rows := range map[string]int{"plugin list": 2, "missed": 5} {
		code, stdout, _ := command(t, append(strings.Fields(args), "--socket", socket)...)
		lines, _, _ := strings.Cut(stdout, "\n\n") // what follows is no table
		if n := strings.Count(lines, "\n") + 1; code != exitOK || n != min(rows, 4) && n != rows {
			t.Errorf("%s: exit code %d, %d lines:\n%s", args, code, n, stdout)
		}
	}
}

func TestAWideCharacterCountsForTwoColumns(t *testing.T) {
	t.Parallel()
	b := paper{width: 10}
	hang(&b, "", 2, "漢字漢字漢字 größer e\u0301e\u0301")
	want := "漢字漢字漢\n  字\n  größer\n  e\u0301e\u0301\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
