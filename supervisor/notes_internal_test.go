package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// told renders the decisions about events that the filter picks, one line each.
func told(ds []journal.Decision) []string {
	var out []string
	for _, d := range ds {
		if d.Kind == journal.KindSelection {
			out = append(out, fmt.Sprint(d.Event, " selection ", d.NotMatched))
			continue
		}
		out = append(out, strings.TrimSpace(fmt.Sprint(d.Event, " ", d.Plugin, " ", d.Match, " ", d.Outcome, d.Reason, " ", d.Action, " ", d.Changed, d.Dropped, d.With)))
	}
	return out
}

// TestEachPluginsPartInACreationIsADecision: who was asked, what came of it, what it changed and what was dropped; and who was not asked and why.
func TestEachPluginsPartInACreationIsADecision(t *testing.T) {
	t.Parallel()
	cfg := load(t, [2]string{"a", sel("x")}, [2]string{"b", sel("x")}, [2]string{"c", sel("x")}, [2]string{"d", sel("x")}, [2]string{"e", sel("y")})
	change := &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		a := &api.ContainerAdjustment{}
		a.AddEnv("TOKEN", "s3cret-value")
		a.AddMount(&api.Mount{Destination: "/data", Source: "/x"})
		a.SetLinuxCPUShares(7)
		return &api.CreateContainerResponse{Adjust: a}, nil
	}}
	hook := &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Hooks: &api.Hooks{Prestart: []*api.Hook{{Path: "/x"}}}}}, nil
	}}
	broken := &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return nil, errors.New("boom")
	}}
	f, s := serve(t, cfg, makers{"a": one(change), "b": one(setEnv("TOKEN", "other")), "c": one(hook), "d": one(broken), "e": one(&fakePlugin{})})
	if _, err := s.create(pod("p", "x", "1"), ctr("p", "c1")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"CreateContainer a selected success allowed [Mounts[/data] Env[TOKEN] CPUShares] [] []",
		"CreateContainer b selected conflictconflict ignored [] [Env[TOKEN]] [a]",
		"CreateContainer c selected forbiddenforbidden ignored [] [OciHooks] []",
		"CreateContainer d selected errorerror ignored [] [] []",
		"CreateContainer selection [{e podSelector }]",
	}
	got := f.s.Decisions(journal.Filter{Event: "CreateContainer"})
	if diff := cmp.Diff(want, told(got)); diff != "" {
		t.Error(diff)
	}
	for _, d := range got {
		if want := (journal.Object{Namespace: "default", Pod: "n-p", PodUID: "u-p", PodID: "p", Container: "c-c1", ContainerID: "c1"}); d.Object != want {
			t.Errorf("%+v", d.Object)
		}
		if text := fmt.Sprintf("%+v", d); strings.Contains(text, "s3cret") || strings.Contains(text, "other") {
			t.Errorf("the value of a variable is in %s", text)
		}
	}
}

// TestADecisionSaysWhatFollowedFromAFailure: by the failure policy, and for the others whose work came to nothing by it.
func TestADecisionSaysWhatFollowedFromAFailure(t *testing.T) {
	t.Parallel()
	cfg := load(t, [2]string{"a", sel("x")}, [2]string{"b", sel("x") + "  failurePolicy: Fail\n"}, [2]string{"no", sel("y") + "  permissions: {reject: true}\n"})
	refuse := &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return nil, errors.New("not here")
	}}
	no := &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return nil, status.Error(codes.PermissionDenied, "rejected by plugin: not here")
	}}
	f, s := serve(t, cfg, makers{"a": one(setEnv("A", "1")), "b": one(refuse), "no": one(no)})
	if _, err := s.create(pod("p", "x", "1"), ctr("p", "c1")); err == nil {
		t.Fatal("the creation is not refused")
	}
	if _, err := s.create(pod("q", "y", "1"), ctr("q", "c2")); err == nil {
		t.Fatal("the creation is not refused")
	}
	critical := pod("r", "y", "1")
	critical.Namespace = "kube-system"
	if _, err := s.create(critical, ctr("r", "c3")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"CreateContainer a selected success discarded [Env[A]] [] []",
		"CreateContainer b selected errorerror failed [] [] []",
		"CreateContainer no selected rejected refused [] [] []",
		"CreateContainer no selected rejected overruled [] [] []",
	}
	if diff := cmp.Diff(want, told(f.s.Decisions(journal.Filter{Event: "CreateContainer", Kind: journal.KindEvent}))); diff != "" {
		t.Error(diff)
	}
}

// TestAnEventThatNobodySelectedLeavesNoDecision: it is the way of most events.
func TestAnEventThatNobodySelectedLeavesNoDecision(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(&fakePlugin{})})
	if _, err := s.create(pod("p"), ctr("p", "c1")); err != nil {
		t.Fatal(err)
	}
	if got := f.s.Decisions(journal.Filter{}); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestTheDecisionThatNobodyIsSelectedCostsNoMemory is not parallel: it counts allocations.
func TestTheDecisionThatNobodyIsSelectedCostsNoMemory(t *testing.T) { //nolint:paralleltest // see above
	cfg := load(t, [2]string{"a", sel("x")}, [2]string{"b", sel("y")})
	cfg.Plugins = slices.Repeat(cfg.Plugins, 50)
	s := New(Options{Config: cfg})
	p := s.store.ObservePod(pod("p"), time.Now())
	if n := testing.AllocsPerRun(100, func() { _, _ = s.selectPod(p) }); n > 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// TestNotificationsAndManualActionsAreDecisions: what became of a notification is known later, and an operator has a uid.
func TestNotificationsAndManualActionsAreDecisions(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(&fakePlugin{event: func(ev, _ string) error {
		if ev == "PostStartContainer" {
			return errors.New("boom")
		}
		return nil
	}})})
	p, c := pod("p", "x", "1"), ctr("p", "c1")
	if _, err := s.create(p, c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.plugin.PostStartContainer(s.ctx(), &api.PostStartContainerRequest{Pod: p, Container: c}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the notification's decision", func() bool { return len(f.s.Decisions(journal.Filter{Event: "PostStartContainer"})) == 1 })
	if diff := cmp.Diff([]string{"PostStartContainer a selected errorerror ignored [] [] []"}, told(f.s.Decisions(journal.Filter{Event: "PostStartContainer"}))); diff != "" {
		t.Error(diff)
	}
	if err := f.s.Act("a", "trip", 4711); err != nil {
		t.Fatal(err)
	}
	got := f.s.Decisions(journal.Filter{Kind: journal.KindManual})
	if len(got) != 1 || got[0].Manual != "trip" || got[0].Plugin != "a" || got[0].Team != "t" || got[0].ActorUID == nil || *got[0].ActorUID != 4711 {
		t.Errorf("%+v", got)
	}
}

// TestEachActionOfAnOperatorIsRecordedWithWhoDidIt: also those that change nothing for the plugins.
func TestEachActionOfAnOperatorIsRecordedWithWhoDidIt(t *testing.T) {
	t.Parallel()
	f, _ := serve(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(&fakePlugin{})})
	enough := errors.New("enough")
	for _, values := range []bool{false, true} {
		if err := f.s.Record(t.Context(), RecordFilter{Values: values}, 4711, func(*recording.Event, uint64) error { return enough }); !errors.Is(err, enough) {
			t.Fatal(err)
		}
	}
	f.s.NoteLogLevel("debug", 4711)
	f.s.Bypass(time.Hour, 4711)
	f.s.Bypass(0, 4711)
	var got []string
	for _, d := range f.s.Decisions(journal.Filter{Kind: journal.KindManual}) {
		if d.ActorUID == nil || *d.ActorUID != 4711 || !d.Notable() {
			t.Errorf("%+v", d)
		}
		got = append(got, d.Manual)
	}
	if diff := cmp.Diff([]string{"record", "record with values", "log-level debug", "bypass", "bypass off"}, got); diff != "" {
		t.Error(diff)
	}
	f.eventually("the log", func() bool {
		return len(f.events(func(e Event) bool {
			m, ok := e.(ManualAction)
			return ok && m.UID == 4711 && (m.Action == "record with values" || m.Action == "bypass off")
		})) == 2
	})
}
