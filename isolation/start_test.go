package isolation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

func TestAPluginOfTheSDKIsStartedConfiguredCalledAndStopped(t *testing.T) {
	t.Parallel()
	out := newLines()
	s := spec(t, isolation.GoPlugin, "sdk")
	s.OnOutput = out.add
	i := startAndConfigure(t, s)
	if got := i.Registration(); got.Name != "test" || got.Index != "42" || got.NRIVersion == "" {
		t.Errorf("registration %+v", got)
	}
	reply, err := create(t, i, "web")
	if err != nil {
		t.Fatal(err)
	}
	if got := env(reply, "PLUGIN"); got != "pod/web" {
		t.Errorf("adjustment says %q", got)
	}
	if err := i.Health(t.Context()); err != nil {
		t.Errorf("health: %v", err)
	}
	d, err := i.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Version != "v1.2.3" {
		t.Errorf("version %q", d.Version)
	}
	if diff := cmp.Diff([]string{"CreateContainer", "RemoveContainer"}, d.Events); diff != "" {
		t.Error(diff)
	}
	exit := i.Stop(t.Context())
	if exit.Reason != isolation.ReasonStopped || exit.Code != 0 || exit.Signal != 0 {
		t.Errorf("exit %s", exit)
	}
	out.wait(t, withText("shutdown handler called"))
	if n := len(strings.Split(strings.Join(exit.LastOutput, "\n"), "shutdown handler called")) - 1; n != 1 {
		t.Errorf("shutdown handler called %d times", n)
	}
}
