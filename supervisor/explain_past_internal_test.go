package supervisor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/audit"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// explained is what is said of one plugin and one container, which must be there.
func explained(t *testing.T, list []Explanation, container, plugin string) (Explanation, PluginExplanation) {
	t.Helper()
	for _, x := range list {
		for _, p := range x.Plugins {
			if (x.ContainerID == container || x.Container == container) && p.Plugin == plugin {
				return x, p
			}
		}
	}
	t.Fatalf("nothing is said of plugin %q and container %q in %+v", plugin, container, list)
	return Explanation{}, PluginExplanation{}
}

// audited gives the supervisor an audit; the function that is returned closes it, so that it can be read.
func (f *fixture) audited() func() string {
	log := audit.Open(audit.Options{Path: filepath.Join(f.t.TempDir(), "audit.jsonl")})
	f.s.journal.Tee(log.Put)
	return func() string {
		f.t.Helper()
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
		defer cancel()
		if err := log.Close(ctx); err != nil {
			f.t.Fatal(err)
		}
		return log.Path()
	}
}

// TestExplainDoesNotSayOfARequiredPluginThatWasNotSelectedThatItWas: live, while the pod lives on, and from the audit.
func TestExplainDoesNotSayOfARequiredPluginThatWasNotSelectedThatItWas(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"a", sel("x")}, [2]string{"elsewhere", sel("y")}, [2]string{"left", sel("x")}), makers{
		"a": one(&fakePlugin{}), "elsewhere": one(&fakePlugin{}),
		"left": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Annotations: map[string]string{notInterestedAnnotation: "pod"}}}, nil
		}}),
	})
	f.s.plan().byName["left"].policy().Spec.Exec.Protocol = "nri"
	closed := f.audited()
	p := annotated("p", policy.RequiredAnnotation+"/container.c-wants", "[elsewhere]", policy.RequiredAnnotation+"/container.c-after", "[left]")
	if _, err := s.create(p, ctr("p", "good")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"wants", "after"} {
		if _, err := s.create(p, ctr("p", id)); err == nil {
			t.Errorf("%s is created without the plugin that it requires", id)
		}
	}
	live, err := f.s.Explain(t.Context(), "default", "n-p", "")
	if err != nil {
		t.Fatal(err)
	}
	past, err := ExplainFromAudit(t.Context(), closed(), "default", "n-p", "")
	if err != nil {
		t.Fatal(err)
	}
	for from, list := range map[string][]Explanation{"live": live, "audit": past} {
		_, e := explained(t, list, "wants", "elsewhere")
		if e.Match != journal.MatchNot || e.Part != "podSelector" || len(e.Decisions) != 1 || e.Decisions[0].Reason != ReasonRequired || !strings.Contains(e.Decisions[0].Detail, "does not select") {
			t.Errorf("%s: %+v", from, e)
		}
		if _, e := explained(t, list, "after", "left"); e.Match != journal.MatchOptedOut || e.Decisions[0].Detail != "it is not interested in this pod" {
			t.Errorf("%s: %+v", from, e)
		}
	}
}

// TestExplainTakesTheCeilingOfToday: a plugin that was selected and may not see the pod any more gets no event of it.
func TestExplainTakesTheCeilingOfToday(t *testing.T) {
	t.Parallel()
	const team = "  teams: {t: {contact: \"#t\", namespaces: [%s]}}\n"
	manifest := [2]string{"p", "  selector: {}\n"}
	p := pod("p", "x", "1")
	f, _ := serveWith(t, loadWith(t, fmt.Sprintf(team, "default"), manifest), makers{"p": one(&fakePlugin{})}, nil, []*api.PodSandbox{p}, []*api.Container{ctr("p", "c")})
	say := func() PluginExplanation {
		list, err := f.s.Explain(t.Context(), "default", "n-p", "c-c")
		if err != nil {
			t.Fatal(err)
		}
		_, e := explained(t, list, "c", "p")
		return e
	}
	if e := say(); e.Match != journal.MatchSelected || e.Note != "" {
		t.Errorf("%+v", e)
	}
	f.s.plan().byName["p"].rules.Store(loadWith(t, fmt.Sprintf(team, "elsewhere"), manifest).Plugin("p"))
	if e := say(); e.Match != journal.MatchNot || e.Part != "team" || !strings.Contains(e.Note, "it was selected") {
		t.Errorf("%+v", e)
	}
}

// TestExplainKnowsContainersThatAreGoneFromAPodThatLives, and says so; of many, the latest.
func TestExplainKnowsContainersThatAreGoneFromAPodThatLives(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(setEnv("K", "v"))})
	p := pod("p", "x", "1")
	for i := range maxGone + 3 {
		c := ctr("p", fmt.Sprint("c", i))
		if _, err := s.create(p, c); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if _, err := s.plugin.RemoveContainer(s.ctx(), &api.RemoveContainerRequest{Pod: p, Container: c}); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, err := f.s.Explain(t.Context(), "default", "n-p", "")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, x := range list {
		if x.Source == ExplainedFromAudit {
			n++
		}
	}
	x, e := explained(t, list, fmt.Sprint("c", maxGone+2), "a")
	if x.Source != ExplainedFromAudit || len(x.Owners) != 1 || e.Match != journal.MatchSelected || n != maxGone {
		t.Errorf("%d gone ones, %+v", n, x)
	}
	var notes []string
	for _, x := range list {
		notes = append(notes, x.Notes...)
	}
	if x, _ := explained(t, list, "c0", "a"); x.Source != ExplainedLive || !strings.Contains(strings.Join(notes, " "), "2 more of this name are gone") {
		t.Errorf("%+v, notes %q", x, notes)
	}
}

// TestAConflictNamesBothPluginsBothTeamsAndTheField in log, metric, audit and explanation.
func TestAConflictNamesBothPluginsBothTeamsAndTheField(t *testing.T) {
	t.Parallel()
	cfg := loadWith(t, "  teams: {t: {contact: \"#t\"}, u: {contact: \"#u\"}}\n", [2]string{"winner", sel("x")}, [2]string{"loser", sel("x")})
	cfg.Plugin("loser").Team = "u"
	f, s := serve(t, cfg, makers{"winner": one(setEnv("K", "v")), "loser": one(setEnv("K", "w"))})
	closed := f.audited()
	if _, err := s.create(pod("p", "x", "1"), ctr("p", "c")); err != nil {
		t.Fatal(err)
	}
	f.eventually("the line", func() bool {
		return len(f.events(func(e Event) bool {
			x, ok := e.(Conflict)
			return ok && fmt.Sprintln(x.Plugin, x.Team, x.With, x.WithTeams, x.Fields) == "loser u [winner] [t] [Env[K]]\n"
		})) == 1
	})
	if n := f.counted("conflicts_total", "plugin", "loser", "team", "u", "with", "winner", "with_team", "t", "field", "Env"); n != 1 {
		t.Errorf("counted %v times", n)
	}
	for _, p := range f.s.Status().Plugins {
		if got := fmt.Sprint(len(p.Conflicts), len(p.MissedInService)); p.Name == "winner" && got != "0 0" || p.Name == "loser" && got != "1 1" {
			t.Errorf("%s: %+v, missed in service %+v", p.Name, p.Conflicts, p.MissedInService)
		} else if p.Name == "loser" && (p.MissedInService[0].Reason != "conflict" || p.MissedInService[0].Count != 1 || p.MissedInService[0].First.Before(p.Since) || p.MissedInService[0].First.After(time.Now()) || p.Conflicts[0].Plugin != "winner" || p.Conflicts[0].Team != "t" || p.Conflicts[0].Count != 1 || p.Conflicts[0].Fields[0] != "Env[K]") {
			t.Errorf("loser: %+v, missed in service %+v", p.Conflicts, p.MissedInService)
		}
	}
	live, err := f.s.Explain(t.Context(), "default", "n-p", "c-c")
	if err != nil {
		t.Fatal(err)
	}
	past, err := ExplainFromAudit(t.Context(), closed(), "default", "n-p", "c-c")
	if err != nil {
		t.Fatal(err)
	}
	for from, list := range map[string][]Explanation{"live": live, "audit": past} {
		_, e := explained(t, list, "c", "loser")
		if len(e.Decisions) != 1 {
			t.Fatalf("%s: %+v", from, e)
		}
		if d := e.Decisions[0]; e.Team != "u" || d.Team != "u" || fmt.Sprint(d.Dropped, d.With, d.WithTeams) != "[Env[K]] [winner] [t]" || d.Outcome != "conflict" {
			t.Errorf("%s: %+v", from, d)
		}
	}
}

// TestAChangeByTheEventOfAnotherPodIsExplainedAtBoth: one plugin updates a container while another pod's is created.
func TestAChangeByTheEventOfAnotherPodIsExplainedAtBoth(t *testing.T) {
	t.Parallel()
	q, p := pod("q", "x", "1"), pod("p", "x", "1")
	f, s := serveWith(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return &api.CreateContainerResponse{Update: []*api.ContainerUpdate{shares("other", 7)}}, nil
	}})}, nil, []*api.PodSandbox{q}, []*api.Container{ctr("q", "other")})
	closed := f.audited()
	if _, err := s.create(p, ctr("p", "c")); err != nil {
		t.Fatal(err)
	}
	live, err := f.s.Explain(t.Context(), "default", "n-q", "")
	if err != nil {
		t.Fatal(err)
	}
	path := closed()
	for _, container := range []string{"", "other"} {
		past, err := ExplainFromAudit(t.Context(), path, "default", "n-q", container)
		if err != nil {
			t.Fatal(err)
		}
		for from, list := range map[string][]Explanation{"live": live, "audit": past} {
			x, e := explained(t, list, "other", "a")
			if n := len(e.Decisions); n == 0 || e.Decisions[n-1].Pod != "n-p" || len(x.Owners) != 1 || x.Owners[0].String() != "CPUShares" || x.PodID != "q" {
				t.Errorf("%s: %+v", from, x)
			}
		}
	}
	if _, err := ExplainFromAudit(t.Context(), path, "default", "n-r", ""); !errors.Is(err, ErrNotExplained) {
		t.Errorf("error %v", err)
	}
}

// TestAPluginThatOptedOutIsExplainedWithoutAGuessAboutItsSelector.
func TestAPluginThatOptedOutIsExplainedWithoutAGuessAboutItsSelector(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Annotations: map[string]string{notInterestedAnnotation: "container"}}}, nil
	}})})
	f.s.plan().byName["a"].policy().Spec.Exec.Protocol = "nri"
	if _, err := s.create(pod("p", "x", "1"), ctr("p", "c")); err != nil {
		t.Fatal(err)
	}
	list, err := f.s.Explain(t.Context(), "default", "n-p", "c-c")
	if err != nil {
		t.Fatal(err)
	}
	if _, e := explained(t, list, "c", "a"); e.Match != journal.MatchOptedOut || e.Note != "" || e.Part != "opted out" {
		t.Errorf("%+v", e)
	}
}

// TestAnOwnerByAnUnsolicitedUpdateHasAnEvent.
func TestAnOwnerByAnUnsolicitedUpdateHasAnEvent(t *testing.T) {
	t.Parallel()
	p := pod("p", "x", "1")
	var got arrived
	f, _ := serveWith(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(&fakePlugin{})}, got.take, []*api.PodSandbox{p}, []*api.Container{ctr("p", "c")})
	f.update("a", shares("c", 5))
	f.eventually("the owner", func() bool {
		list, err := f.s.Explain(t.Context(), "default", "n-p", "c-c")
		return err == nil && len(list) == 1 && len(list[0].Owners) == 1 && list[0].Owners[0].Event == eventUnsolicited
	})
}

// TestAReloadThatAnOperatorAskedForIsAuditedWithTheUidOfWhoAsked, like any other manual action.
func TestAReloadThatAnOperatorAskedForIsAuditedWithTheUidOfWhoAsked(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"a", sel("x")})
	f, _ := serveFiles(t, fs, makers{"a": one(&fakePlugin{})})
	if _, err := f.s.ReloadBy(t.Context(), 1234); err != nil {
		t.Fatal(err)
	}
	ds := f.s.Decisions(journal.Filter{Kind: journal.KindManual})
	if len(ds) != 1 || ds[0].Manual != "reload" || ds[0].ActorUID == nil || *ds[0].ActorUID != 1234 || !ds[0].Notable() {
		t.Errorf("%+v", ds)
	}
	f.eventually("the lines", func() bool {
		return len(f.events(func(e Event) bool { x, ok := e.(ManualAction); return ok && x.Action == "reload" && x.UID == 1234 })) == 1 &&
			len(f.events(func(e Event) bool { x, ok := e.(Reloaded); return ok && x.Cause == "uid 1234" })) == 1
	})
}

// TestAFallbackOfAValidatorIsOneLineOfItsOwnEvent, and none beside the line about the same plugin's creation.
func TestAFallbackOfAValidatorIsOneLineOfItsOwnEvent(t *testing.T) {
	t.Parallel()
	var only api.EventMask
	only.Set(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	boom := func() (*api.ValidateContainerAdjustmentResponse, error) { return nil, errors.New("boom") }
	f, s := serve(t, load(t, [2]string{"both", sel("x") + "  failurePolicy: Ignore\n"}, [2]string{"half", sel("x") + "  failurePolicy: Ignore\n"}, [2]string{"judge", sel("x") + "  failurePolicy: Ignore\n"},
		[2]string{"z", sel("x")}), makers{
		"both": one(&fakePlugin{mask: only | mask(api.Event_CREATE_CONTAINER), validate: boom, create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return nil, errors.New("boom")
		}}),
		"half":  one(&fakePlugin{mask: only | mask(api.Event_CREATE_CONTAINER), validate: boom}),
		"judge": one(&fakePlugin{mask: only, validate: boom}),
		"z":     one(setEnv("A", "1")),
	})
	if _, err := s.create(pod("p", "x", "1"), ctr("p", "c")); err != nil {
		t.Fatal(err)
	}
	lines := func() string {
		var out []string
		for _, e := range f.events(func(e Event) bool { _, ok := e.(Fallback); return ok }) {
			x, _ := e.(Fallback)
			out = append(out, x.Plugin+" "+x.NRIEvent)
		}
		return strings.Join(out, ", ")
	}
	// The last one is known to be written when a line that comes after it is.
	f.s.emit(Stopping{})
	f.eventually("all lines", func() bool { return len(f.events(func(e Event) bool { _, ok := e.(Stopping); return ok })) == 1 })
	counts := map[string]int{}
	for l := range strings.SplitSeq(lines(), ", ") {
		counts[l]++
	}
	if len(counts) != 3 || counts["both CreateContainer"] != 1 || counts["half ValidateContainerAdjustment"] != 1 || counts["judge ValidateContainerAdjustment"] != 1 {
		t.Errorf("lines: %v", counts)
	}
	if m := f.missedBy(); m["judge"] == "" || m["half"] == "" || m["both"] == "" {
		t.Errorf("missed: %v", m)
	}
}

func mask(events ...api.Event) (m api.EventMask) {
	m.Set(events...)
	return m
}

// TestExplainTellsWhyAContainerWasRefusedForNoPlugin: the annotation of its pod could not be read, so that no plugin was asked.
func TestExplainTellsWhyAContainerWasRefusedForNoPlugin(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(&fakePlugin{})})
	closed := f.audited()
	if _, err := s.create(annotated("p", policy.RequiredAnnotation+"/container.c-c1", "[a"), ctr("p", "c1")); err == nil {
		t.Fatal("the container is created")
	}
	live, err := f.s.Explain(t.Context(), "default", "n-p", "")
	if err != nil {
		t.Fatal(err)
	}
	path := closed()
	past, err := ExplainFromAudit(t.Context(), path, "default", "n-p", "")
	if err != nil {
		t.Fatal(err)
	}
	for where, list := range map[string][]Explanation{"live": live, "audit": past} {
		i := slices.IndexFunc(list, func(x Explanation) bool { return x.ContainerID == "c1" })
		if i < 0 || len(list[i].Decisions) != 1 || list[i].Decisions[0].Action != journal.ActionFailed || !strings.Contains(list[i].Decisions[0].Detail, policy.RequiredAnnotation) {
			t.Errorf("%s: %+v", where, list)
		}
	}
}
