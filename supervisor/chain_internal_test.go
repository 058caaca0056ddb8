package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// TestWhatAPluginWritesDoesNotMakeTheReplyTooLarge: a reply that is larger than a message is never sent, and the runtime would give up the connection.
func TestWhatAPluginWritesDoesNotMakeTheReplyTooLarge(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]*fakePlugin{
		"a rejection without permission": {create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return nil, status.Error(codes.PermissionDenied, "rejected by plugin: "+strings.Repeat("x", 4<<20-100))
		}},
		"an invalid response": setEnv(strings.Repeat("\x01", 2<<20)+"=", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := serve(t, load(t, [2]string{"bad", sel("bad") + "  failurePolicy: Fail\n"}), makers{"bad": one(bad)})
			if _, err := s.create(pod("p", "bad", "1"), ctr("p", "c")); err == nil || len(err.Error()) > 64<<10 {
				t.Error("the creation is not refused with a short reason")
			}
			if _, err := s.create(pod("unrelated"), ctr("unrelated", "u")); err != nil {
				t.Errorf("the connection is lost to others: %v", err)
			}
		})
	}
}

// TestAPluginWithoutPermissionDoesNotRemoveWhatAnotherSet: permissions.override is needed to take away, as it is to replace; in one stage as in two.
func TestAPluginWithoutPermissionDoesNotRemoveWhatAnotherSet(t *testing.T) {
	t.Parallel()
	for name, parallel := range map[string]string{"one after the other": "", "in a parallel stage": "  parallel: true\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := load(t, [2]string{"a-victim", sel("x") + parallel}, [2]string{"b-thief", sel("x") + parallel})
			if parallel != "" {
				for _, p := range cfg.Plugins {
					p.Index = "10"
				}
			}
			_, s := serve(t, cfg, makers{"a-victim": one(setEnv("TOKEN", "1")), "b-thief": one(setEnv("-TOKEN", ""))})
			for i := range 10 {
				p := pod(fmt.Sprint("p", i), "x", "1")
				rpl, err := s.create(p, ctr(p.GetId(), fmt.Sprint("c", i)))
				if err != nil {
					t.Fatal(err)
				}
				if env := rpl.GetAdjust().GetEnv(); len(env) != 1 || env[0].GetKey() != "TOKEN" {
					t.Fatalf("the environment is %v", env)
				}
			}
		})
	}
}

// TestAMissingValidatorIsRecorded: a validator's work is missing like any other plugin's.
func TestAMissingValidatorIsRecorded(t *testing.T) {
	t.Parallel()
	var m api.EventMask
	m.Set(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	f, s := serve(t, load(t, [2]string{"judge", sel("x") + "  permissions: {reject: true}\n  failurePolicy: Ignore\n"}), makers{
		"judge": one(&fakePlugin{mask: m, validate: func() (*api.ValidateContainerAdjustmentResponse, error) { return nil, errors.New("boom") }}),
	})
	rpl, err := s.create(pod("p", "x", "1"), ctr("p", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if a := rpl.GetAdjust().GetAnnotations()[missedAnnotation]; a == "" || f.missedBy()["judge"] == "" {
		t.Errorf("annotation %q, records %v", a, f.missedBy())
	}
}

// TestAPluginCannotForgeTheAnnotationOfMissingWork: it is the supervisor's own.
func TestAPluginCannotForgeTheAnnotationOfMissingWork(t *testing.T) {
	t.Parallel()
	_, s := serve(t, load(t, [2]string{"liar", sel("x")}), makers{
		"liar": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Annotations: map[string]string{missedAnnotation: "other=timeout"}}}, nil
		}}),
	})
	rpl, err := s.create(pod("p", "x", "1"), ctr("p", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if a := rpl.GetAdjust().GetAnnotations()[missedAnnotation]; strings.Contains(a, "other") {
		t.Errorf("the runtime gets %q", a)
	}
}

// TestARefusedSandboxIsForgottenByAll: containerd sends no RemovePodSandbox for a sandbox that NRI refused, and the kubelet tries again and again.
func TestARefusedSandboxIsForgottenByAll(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	known := map[string]bool{}
	asked := 0
	f, s := serve(t, load(t, [2]string{"first", sel("x")}, [2]string{"refuses", sel("x") + "  failurePolicy: Fail\n  failurePolicyEvents: [RunPodSandbox]\n"}), makers{
		"first": one(&fakePlugin{event: func(ev, id string) error {
			mu.Lock()
			defer mu.Unlock()
			switch ev {
			case "RunPodSandbox":
				asked++
				known[id] = true
			case "RemovePodSandbox":
				delete(known, id)
			}
			return nil
		}}),
		"refuses": one(&fakePlugin{event: func(string, string) error { return errors.New("no") }}),
	})
	for i := range 3 {
		if _, err := s.plugin.RunPodSandbox(s.ctx(), &api.RunPodSandboxRequest{Pod: pod(fmt.Sprint("p", i), "x", "1")}); err == nil {
			t.Fatal("the sandbox is not refused")
		}
	}
	f.eventually("the removal of what was told", func() bool {
		pods, _ := f.s.store.Len()
		mu.Lock()
		defer mu.Unlock()
		return pods == 0 && asked > 0 && len(known) == 0
	})
}

// TestEventsAfterTheRemovalDoNotBringAPodBack: the runtime may remove a container after its pod.
func TestEventsAfterTheRemovalDoNotBringAPodBack(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{})})
	p, c := pod("p", "x", "1"), ctr("p", "c")
	_, _ = s.plugin.RunPodSandbox(s.ctx(), &api.RunPodSandboxRequest{Pod: p})
	if _, err := s.create(p, c); err != nil {
		t.Fatal(err)
	}
	_, _ = s.plugin.StopPodSandbox(s.ctx(), &api.StopPodSandboxRequest{Pod: p})
	_, _ = s.plugin.RemovePodSandbox(s.ctx(), &api.RemovePodSandboxRequest{Pod: p})
	_, _ = s.plugin.RemoveContainer(s.ctx(), &api.RemoveContainerRequest{Pod: p, Container: c})
	if pods, ctrs := f.s.store.Len(); pods+ctrs != 0 {
		t.Errorf("%d pods and %d containers are left", pods, ctrs)
	}
}

// TestAFailedCreationIsTakenBackFromAPluginThatGotItBySnapshot: a plugin that missed its turn and was synchronized during the creation knows the
// container, and has to hear that it never came to be.
func TestAFailedCreationIsTakenBackFromAPluginThatGotItBySnapshot(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	known := map[string]bool{}
	hold := make(chan struct{})
	f, s := serve(t, load(t, [2]string{"early", sel("x")}, [2]string{"later", sel("x") + "  failurePolicy: Fail\n  timeouts: {default: 1500ms}\n"}), makers{
		"early": one(&fakePlugin{
			sync: func(_ []*api.PodSandbox, ctrs []*api.Container) error {
				mu.Lock()
				defer mu.Unlock()
				clear(known)
				for _, c := range ctrs {
					known[c.GetId()] = true
				}
				return nil
			},
			event: func(ev, id string) error {
				mu.Lock()
				defer mu.Unlock()
				if ev == "RemoveContainer" {
					delete(known, id)
				}
				return nil
			},
		}),
		"later": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			<-hold
			return nil, errors.New("no")
		}}),
	})
	if err := f.s.Act("early", "disable", 0); err != nil {
		t.Fatal(err)
	}
	f.eventually("disabled", func() bool { return f.s.plan().byName["early"].view.Load().state == "disabled" })
	done := make(chan error, 1)
	go func() { _, err := s.create(pod("p", "x", "1"), ctr("p", "c")); done <- err }()
	f.eventually("the end of early's turn", func() bool {
		return len(f.events(func(e Event) bool { x, ok := e.(Fallback); return ok && x.Plugin == "early" })) == 1
	})
	if err := f.s.Act("early", "enable", 0); err != nil {
		t.Fatal(err)
	}
	f.ready("early")
	close(hold)
	if err := <-done; err == nil {
		t.Fatal("the creation did not fail")
	}
	f.eventually("the container gone everywhere", func() bool {
		_, stored := f.s.store.Get(store.Ref{Pod: "p", Container: "c"})
		mu.Lock()
		defer mu.Unlock()
		return !stored && len(known) == 0
	})
}
