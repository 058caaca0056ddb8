package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

func TestTheValuesOfVariablesAreTakenOutOfAPluginsWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 40)
	for name, c := range map[string]struct {
		text string
		env  []string
		want string
	}{
		"nothing to hide":    {"boom", []string{"A=1"}, "boom"},
		"a value":            {"cannot log in with hunter22 as root", []string{"PW=hunter22", "USER=root"}, "cannot log in with [value of PW] as [value of USER]"},
		"a short value":      {"on", []string{"A=on"}, "on"},
		"several lines":      {"key a\n b c", []string{"KEY=a\nb\tc"}, "key [value of KEY]"},
		"no value":           {"boom", []string{"A=", "B"}, "boom"},
		"one within another": {"with hunter22long", []string{"A=hunter22", "B=hunter22long"}, "with [value of B]"},
		"quoted":             {`bad "a\"b\nc"`, []string{"Q=a\"b\nc"}, `bad "[value of Q]"`},
		"cut within":         {"(see hunte… and hunter2…)", []string{"K=hunter22"}, "(see … and …)"},
		"cut in the midst":   {strings.Repeat("x ", 100) + long, []string{"K=" + long}, strings.TrimSuffix(strings.Repeat("x ", 100), "") + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := withoutValues(c.text, c.env); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestAnErrorThatQuotesAVariableDoesNotReachTheJournal(t *testing.T) {
	t.Parallel()
	quote := &fakePlugin{
		create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return nil, errors.New("bad " + r.GetContainer().GetEnv()[0])
		},
		event: func(string, string) error { return errors.New("bad PW=hunter22") },
	}
	f, s := serve(t, load(t, [2]string{"a", sel("x")}), makers{"a": one(quote)})
	p, c := pod("p", "x", "1"), ctr("p", "c1")
	c.Env = []string{"PW=hunter22"}
	if _, err := s.create(p, c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.plugin.RemoveContainer(s.ctx(), &api.RemoveContainerRequest{Pod: p, Container: c}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the removal's decision", func() bool { return len(f.s.Decisions(journal.Filter{Event: "RemoveContainer"})) == 1 })
	for _, d := range f.s.Decisions(journal.Filter{Kind: journal.KindEvent}) {
		if !strings.Contains(d.Detail+d.Reason, "bad PW=[value of PW]") && d.Action != journal.ActionWithheld || strings.Contains(d.Detail, "hunter") {
			t.Errorf("%+v", d)
		}
	}
}

// TestTheValuesThatOtherPluginsSetAreTakenOutOfAPluginsWords: the first plugin sets a variable, and the second quotes it in each way that it has.
func TestTheValuesThatOtherPluginsSetAreTakenOutOfAPluginsWords(t *testing.T) {
	t.Parallel()
	const value = `hunter22 "of" the first`
	set := &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Env: []*api.KeyValue{{Key: "PW", Value: value}}}}, nil
	}}
	mount := func(destination string) *api.CreateContainerResponse {
		return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Mounts: []*api.Mount{{Source: "/x", Destination: destination, Type: "bind"}}}}
	}
	pw := func(r *api.CreateContainerRequest) string { return r.GetContainer().GetEnv()[0] }
	const reject = "  permissions: {reject: true}\n"
	for name, tt := range map[string]struct {
		manifest string
		second   *fakePlugin
	}{
		"an error": {"", &fakePlugin{create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return nil, errors.New("bad " + pw(r))
		}}},
		"a refusal": {reject, &fakePlugin{create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return nil, &wire.RejectError{Reason: "I do not like " + pw(r)}
		}}},
		"a refusal that it may not make": {"", &fakePlugin{create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return nil, &wire.RejectError{Reason: "I do not like " + pw(r)}
		}}},
		"a malformed mount": {"", &fakePlugin{create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return mount(pw(r)), nil
		}}},
		"its own value": {"", &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			rpl := mount("hunter33")
			rpl.Adjust.Env = []*api.KeyValue{{Key: "OWN", Value: "hunter33"}}
			return rpl, nil
		}}},
		"a validator": {"  failurePolicy: Ignore\n" + reject, &fakePlugin{mask: mask(api.Event_VALIDATE_CONTAINER_ADJUSTMENT), judge: func(r *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
			return &api.ValidateContainerAdjustmentResponse{Reject: true, Reason: "not " + r.GetAdjust().GetEnv()[0].GetValue()}, nil
		}}},
		"a validator that may not refuse": {"  failurePolicy: Ignore\n", &fakePlugin{mask: mask(api.Event_VALIDATE_CONTAINER_ADJUSTMENT), judge: func(r *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
			return &api.ValidateContainerAdjustmentResponse{Reject: true, Reason: "not " + r.GetAdjust().GetEnv()[0].GetValue()}, nil
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := serve(t, load(t, [2]string{"a", sel("x")}, [2]string{"b", sel("x") + tt.manifest}), makers{"a": one(set), "b": one(tt.second)})
			_, err := s.create(pod("p", "x", "1"), ctr("p", "c1"))
			if err != nil && strings.Contains(err.Error(), "hunter") {
				t.Errorf("the request's error: %v", err)
			}
			told := false
			for _, d := range f.s.Decisions(journal.Filter{}) {
				told = told || d.Plugin == "b" && strings.Contains(d.Detail, "[value of ")
				if strings.Contains(fmt.Sprintf("%+v", d), "hunter") {
					t.Errorf("the journal: %+v", d)
				}
			}
			if !told {
				t.Errorf("nothing is told of it: %+v", f.s.Decisions(journal.Filter{}))
			}
			for _, e := range f.events(func(Event) bool { return true }) {
				if strings.Contains(fmt.Sprintf("%+v", e), "hunter") {
					t.Errorf("the log: %+v", e)
				}
			}
			for _, p := range f.s.Status().Plugins {
				if strings.Contains(p.LastError, "hunter") {
					t.Errorf("the status: %s", p.LastError)
				}
			}
		})
	}
}
