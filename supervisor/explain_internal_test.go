package supervisor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/audit"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// summary is an explanation in a few lines.
func summary(x Explanation) []string {
	out := []string{fmt.Sprint(x.Source, " ", x.Container)}
	for _, p := range x.Plugins {
		line := fmt.Sprint(p.Plugin, " ", p.Match, " ", p.Part)
		for _, d := range p.Decisions {
			line += fmt.Sprint(" ", d.Event, " ", d.Outcome, " ", d.Action, d.Changed, d.Dropped, d.With)
		}
		out = append(out, strings.TrimSpace(line))
	}
	for _, o := range x.Owners {
		out = append(out, o.String()+" is "+o.Plugin)
	}
	return out
}

// TestAContainerIsExplainedWhileItLivesAndAfterItIsGone: in the same words, as far as they are kept.
func TestAContainerIsExplainedWhileItLivesAndAfterItIsGone(t *testing.T) {
	t.Parallel()
	cfg := load(t, [2]string{"a", sel("x")}, [2]string{"b", sel("x")}, [2]string{"c", sel("y")})
	f, s := serve(t, cfg, makers{"a": one(setEnv("K", "v")), "b": one(setEnv("K", "w")), "c": one(&fakePlugin{})})
	log := audit.Open(audit.Options{Path: filepath.Join(t.TempDir(), "audit.jsonl")})
	f.s.journal.Tee(log.Put)
	p, c := pod("p", "x", "1"), ctr("p", "c1")
	if _, err := s.create(p, c); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"live c-c1",
		"a selected CreateContainer success allowed[Env[K]] [] []",
		"b selected CreateContainer conflict ignored[] [Env[K]] [a]",
		"c not_selected podSelector",
		"Env[K] is a",
	}
	got, err := f.s.Explain(t.Context(), "default", "n-p", "c-c1")
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %+v", err, got)
	}
	if diff := cmp.Diff(want, squeeze(summary(got[0]))); diff != "" {
		t.Error(diff)
	}
	if parts := got[0].Plugins[2].Parts; len(parts) != 1 || parts[0].Matched || !strings.Contains(parts[0].Detail, "no label y") || got[0].Plugins[2].Detail != parts[0].Detail {
		t.Errorf("%+v", got[0].Plugins[2])
	}
	if all, err := f.s.Explain(t.Context(), "default", "n-p", ""); err != nil || len(all) != 2 || all[0].Container != "" {
		t.Errorf("%v, %+v", err, all)
	}
	if _, err := f.s.Explain(t.Context(), "default", "n-q", ""); !errors.Is(err, ErrNotExplained) {
		t.Errorf("error %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := log.Close(ctx); err != nil {
		t.Fatal(err)
	}
	_, _ = s.plugin.RemoveContainer(s.ctx(), &api.RemoveContainerRequest{Pod: p, Container: c})
	_, _ = s.plugin.RemovePodSandbox(s.ctx(), &api.RemovePodSandboxRequest{Pod: p})
	gone, err := ExplainFromAudit(t.Context(), log.Path(), "default", "n-p", "c1")
	if err != nil || len(gone) != 1 {
		t.Fatalf("%v, %+v", err, gone)
	}
	want[0] = "audit c-c1"
	if diff := cmp.Diff(want, squeeze(summary(gone[0]))); diff != "" {
		t.Error(diff)
	}
	gone, err = New(Options{Config: cfg, Audit: log}).Explain(t.Context(), "default", "n-p", "c-c1")
	if err != nil || len(gone) != 1 || gone[0].Source != ExplainedFromAudit {
		t.Fatalf("%v, %+v", err, gone)
	}
	if diff := cmp.Diff(want, squeeze(summary(gone[0]))); diff != "" {
		t.Error(diff)
	}
	if _, err := ExplainFromAudit(t.Context(), log.Path(), "default", "n-p", "c2"); !errors.Is(err, ErrNotExplained) {
		t.Errorf("error %v", err)
	}
}

func squeeze(lines []string) []string {
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return lines
}

// TestEventsAreRecordedForWhoAsksAndTheEventDoesNotWait: a client that does not read loses events.
func TestEventsAreRecordedForWhoAsksAndTheEventDoesNotWait(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(&fakePlugin{})})
	if _, err := s.create(pod("p0"), ctr("p0", "c0")); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	begun, hold := make(chan struct{}), make(chan struct{})
	var names []string
	var lost uint64
	ended := make(chan error, 1)
	go func() {
		ended <- f.s.Record(t.Context(), RecordFilter{Namespace: "default"}, 4711, func(ev *recording.Event, missing uint64) error {
			names = append(names, ev.Name)
			lost += missing
			if ev.Name == "Synchronize" {
				if len(ev.Pods) != 1 || len(ev.Containers) != 1 || !ev.Redacted {
					t.Errorf("%+v", ev)
				}
				close(begun)
				<-hold
			}
			if ev.Container.GetId() == "last" {
				return enough
			}
			return nil
		})
	}()
	<-begun
	p := pod("p1")
	const n = recordQueue + 10
	for range n {
		if _, err := s.plugin.PostUpdatePodSandbox(s.ctx(), &api.PostUpdatePodSandboxRequest{Pod: p}); err != nil {
			t.Fatal(err)
		}
	}
	other := pod("p2")
	other.Namespace = "elsewhere"
	if _, err := s.plugin.PostUpdatePodSandbox(s.ctx(), &api.PostUpdatePodSandboxRequest{Pod: other}); err != nil {
		t.Fatal(err)
	}
	close(hold)
	for i := 0; ; i++ { // the queue may still be full
		id := "last"
		if _, err := s.create(p, ctr("p1", id)); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, enough) || lost < 10 || names[1] != "PostUpdatePodSandbox" || names[len(names)-1] != "CreateContainer" {
				t.Errorf("%v, %d lost, %d events", err, lost, len(names))
			}
			if f.s.recorders.list.Load() != nil {
				t.Error("the recorder is still there")
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
