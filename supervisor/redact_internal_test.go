package supervisor

import (
	"errors"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

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
		"nothing to hide":  {"boom", []string{"A=1"}, "boom"},
		"a value":          {"cannot log in with hunter22 as root", []string{"PW=hunter22", "USER=root"}, "cannot log in with [value of PW] as [value of USER]"},
		"a short value":    {"on", []string{"A=on"}, "on"},
		"several lines":    {"key a\n b c", []string{"KEY=a\nb\tc"}, "key [value of KEY]"},
		"no value":         {"boom", []string{"A=", "B"}, "boom"},
		"cut in the midst": {strings.Repeat("x ", 100) + long, []string{"K=" + long}, strings.TrimSuffix(strings.Repeat("x ", 100), "") + "…"},
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
