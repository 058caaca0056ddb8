package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// judge is a plugin that only validates and keeps what it was asked.
type judge struct {
	mu    sync.Mutex
	asked []*api.ValidateContainerAdjustmentRequest
	say   func(*api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error)
}

func (j *judge) plugin() *fakePlugin {
	var m api.EventMask
	m.Set(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	return &fakePlugin{mask: m, judge: func(r *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.asked = append(j.asked, proto.CloneOf(r))
		if j.say != nil {
			return j.say(r)
		}
		return &api.ValidateContainerAdjustmentResponse{}, nil
	}}
}

func (j *judge) requests() []*api.ValidateContainerAdjustmentRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.asked
}

func instances(list []*api.PluginInstance) string {
	var out []string
	for _, p := range list {
		out = append(out, p.GetIndex()+"-"+p.GetName())
	}
	return strings.Join(out, " ")
}

// TestAHostedValidatorIsAskedOncePerContainerWithTheTrueOwners about what is left in the end: after conflicts, and after what only the whole merge shows to be an override.
func TestAHostedValidatorIsAskedOncePerContainerWithTheTrueOwners(t *testing.T) {
	t.Parallel()
	var j judge
	_, s := serve(t, load(t,
		[2]string{"a", sel("x")}, [2]string{"b", sel("x")}, [2]string{"loser", sel("x")}, [2]string{"judge", sel("x") + "  failurePolicy: Fail\n"}), makers{
		"a": one(setEnv("A", "1")), "b": one(setEnv("B", "1")), "loser": one(setEnv("A", "2")), "judge": one(j.plugin()),
	})
	for i := range 3 {
		if _, err := s.create(pod("p", "x", "1"), ctr("p", fmt.Sprint("c", i))); err != nil {
			t.Fatal(err)
		}
	}
	asked := j.requests()
	if len(asked) != 3 {
		t.Fatalf("asked %d times for 3 containers", len(asked))
	}
	for i, r := range asked {
		id := fmt.Sprint("c", i)
		if o, ok := r.GetOwners().EnvOwner(id, "B"); !ok || o != "b" {
			t.Errorf("the owner of B is %q", o)
		}
		if o, _ := r.GetOwners().EnvOwner(id, "A"); o != "a" {
			t.Errorf("the owner of A is %q", o)
		}
		if r.GetContainer().GetId() != id || len(r.GetAdjust().GetEnv()) != 2 || instances(r.GetPlugins()) != "10-a 11-b" {
			t.Errorf("asked about %v, consulted %q", r.GetAdjust(), instances(r.GetPlugins()))
		}
	}
}

// TestAValidatorThatRefusesKeepsTheContainerFromBeingCreated if it may.
func TestAValidatorThatRefusesKeepsTheContainerFromBeingCreated(t *testing.T) {
	t.Parallel()
	refuses := func(_ *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
		return &api.ValidateContainerAdjustmentResponse{Reject: true, Reason: "no A here"}, nil
	}
	for manifest, want := range map[string]string{
		"  failurePolicy: Ignore\n  permissions: {reject: true}\n": "refuses this container: no A here",
		"  failurePolicy: Fail\n":                                  "forbidden",
		"  failurePolicy: Ignore\n":                                "",
	} {
		j := judge{say: refuses}
		_, s := serve(t, load(t, [2]string{"a", sel("x")}, [2]string{"judge", sel("x") + manifest}), makers{"a": one(setEnv("A", "1")), "judge": one(j.plugin())})
		_, err := s.create(pod("p", "x", "1"), ctr("p", "c"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with %q: %v, want %q", manifest, err, want)
		}
	}
}

// TestAValidatorsManifestMustStateItsFailurePolicy: by events it is refused at load, by what the plugin subscribes to when it is configured. A plugin that subscribes to everything does not validate then.
func TestAValidatorsManifestMustStateItsFailurePolicy(t *testing.T) {
	t.Parallel()
	var j judge
	f := begin(t, load(t, [2]string{"judge", sel("x")}, [2]string{"all", sel("x")}), nil, state.Loaded{}, makers{
		"judge": one(j.plugin()),
		"all": one(&fakePlugin{configure: func() (*api.ConfigureResponse, error) { return &api.ConfigureResponse{}, nil }, judge: func(*api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
			return nil, errors.New("asked")
		}}),
	})
	s := f.rt.accept()
	if err := s.synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.ready("all")
	f.eventually("the refusal", func() bool {
		return len(f.events(func(e Event) bool {
			x, ok := e.(PluginSyncFailed)
			return ok && x.Plugin == "judge" && strings.Contains(x.Err, "must state failurePolicy")
		})) > 0
	})
	if f.s.plan().byName["all"].validates() {
		t.Error("a plugin that subscribes to everything validates without a failurePolicy")
	}
	if _, err := policy.Parse([]policy.SourceFile{{Path: "c", Data: []byte("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {}\n")}}, policy.LoadOptions{ConfigFile: "c"}); err != nil {
		t.Fatal(err)
	}
}

// TestWithRuntimeValidateEverythingIsJudgedWithTheTrueOwners: what plugins outside did as well, and the supervisor's part by the plugins that did it.
func TestWithRuntimeValidateEverythingIsJudgedWithTheTrueOwners(t *testing.T) {
	t.Parallel()
	var j judge
	f, s := serve(t, loadWith(t, "  runtime: {validate: true}\n  teams:\n    t: {contact: \"#t\", permissions: {adjust: [\"*\"]}, allow: {failurePolicyFail: true, reject: true}}\n",
		[2]string{"a", sel("x")}, [2]string{"b", sel("x")}, [2]string{"judge", sel("x") + "  failurePolicy: Fail\n  permissions: {reject: true}\n"}), makers{
		"a": one(adjusts(func() *api.ContainerAdjustment {
			x := env("A", "1")
			x.AddHooks(&api.Hooks{Prestart: []*api.Hook{{Path: "/a"}}})
			return x
		})), "b": one(setEnv("B", "1")), "judge": one(j.plugin()),
	})
	if !s.mask.IsSet(api.Event_VALIDATE_CONTAINER_ADJUSTMENT) {
		t.Fatal("validation is not subscribed")
	}
	p, c := pod("p", "x", "1"), ctr("p", "c")
	rpl, err := s.create(p, c)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(j.requests()); n != 0 {
		t.Fatalf("asked %d times inside the creation", n)
	}
	const us = "50-nri-supervisor"
	req := func() *api.ValidateContainerAdjustmentRequest {
		adjust := proto.CloneOf(rpl.GetAdjust())
		adjust.Env = append(adjust.Env, &api.KeyValue{Key: "OUT", Value: "1"})
		return &api.ValidateContainerAdjustmentRequest{
			Pod: p, Container: c, Adjust: adjust,
			Owners: &api.OwningPlugins{Owners: map[string]*api.FieldOwners{"c": {
				Simple:   map[int32]string{api.Field_OciHooks.Key(): "00-outer," + us, api.Field_Args.Key(): us},
				Compound: map[int32]*api.CompoundFieldOwners{api.Field_Env.Key(): {Owners: map[string]string{"A": us, "B": us, "OUT": "00-outer"}}},
			}}},
			Plugins: []*api.PluginInstance{{Index: "00", Name: "outer"}, {Index: "50", Name: "nri-supervisor"}, {Index: "99", Name: "late"}},
		}
	}
	res, err := s.plugin.ValidateContainerAdjustment(s.ctx(), req())
	if err != nil || res.GetReject() {
		t.Fatalf("%v, %v", res, err)
	}
	asked := j.requests()
	if len(asked) != 1 {
		t.Fatalf("asked %d times", len(asked))
	}
	own := asked[0].GetOwners().GetOwners()["c"]
	if got := fmt.Sprint(own.GetCompound()[api.Field_Env.Key()].GetOwners()); got != "map[A:a B:b OUT:00-outer]" {
		t.Errorf("owners of variables: %s", got)
	}
	if got := own.GetSimple()[api.Field_OciHooks.Key()]; got != "00-outer,a" {
		t.Errorf("owners of hooks: %s", got)
	}
	if got := own.GetSimple()[api.Field_Args.Key()]; got != us { // nobody here did that
		t.Errorf("owner of args: %s", got)
	}
	if got := instances(asked[0].GetPlugins()); got != "00-outer 10-a 11-b 99-late" {
		t.Errorf("consulted: %s", got)
	}

	// A refusal takes back what the plugins were told.
	j.mu.Lock()
	j.say = func(*api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
		return &api.ValidateContainerAdjustmentResponse{Reject: true, Reason: "no OUT here"}, nil
	}
	j.mu.Unlock()
	res, err = s.plugin.ValidateContainerAdjustment(s.ctx(), req())
	if err != nil || !res.GetReject() || !strings.Contains(res.GetReason(), "no OUT here") || !strings.Contains(res.GetReason(), `plugin "judge"`) {
		t.Errorf("%v, %v", res, err)
	}
	if _, ctrs := f.s.store.Len(); ctrs != 0 {
		t.Error("the refused container is still known")
	}
	// What no hosted validator selected costs nothing.
	if res, err := s.plugin.ValidateContainerAdjustment(s.ctx(), &api.ValidateContainerAdjustmentRequest{Pod: pod("q"), Container: ctr("q", "d")}); err != nil || res.GetReject() || len(j.requests()) != 2 {
		t.Errorf("%v, %v", res, err)
	}
}
