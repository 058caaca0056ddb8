package supervisor

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// TestABypassCreatesContainersWhateverTheFailurePolicy: a bypass is as if no plugin were there.
func TestABypassCreatesContainersWhateverTheFailurePolicy(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"strict", sel("x") + "  failurePolicy: Fail\n"}), makers{"strict": one(&fakePlugin{})})
	f.s.Bypass(time.Minute, 0)
	if _, err := s.create(pod("p", "x", "1"), ctr("p", "c")); err != nil {
		t.Error(err)
	}
}

// TestANotificationDuringABypassLeavesASign: what a plugin is not told is a line or a record.
func TestANotificationDuringABypassLeavesASign(t *testing.T) {
	t.Parallel()
	var m api.EventMask
	m.Set(api.Event_POST_CREATE_CONTAINER)
	f, s := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{mask: m})})
	f.s.Bypass(time.Minute, 0)
	p, c := pod("p", "x", "1"), ctr("p", "c")
	if _, err := s.create(p, c); err != nil {
		t.Fatal(err)
	}
	_, _ = s.plugin.PostCreateContainer(s.ctx(), &api.PostCreateContainerRequest{Pod: p, Container: c})
	f.eventually("a line or a record", func() bool {
		return len(f.events(func(e Event) bool { _, ok := e.(Fallback); return ok }))+len(f.s.Missed()) > 0
	})
}

func TestManualStatesOfAPluginSurviveARestart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		actions []string
		want    string
	}{
		{[]string{"disable", "trip"}, "disabled"},
		{[]string{"disable", "reset"}, "disabled"},
		{[]string{"trip", "disable", "enable"}, "forced_open"},
	} {
		t.Run(strings.Join(tc.actions, "+"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cfg := load(t, [2]string{"p", sel("x")})
			for _, actions := range [][]string{tc.actions, nil} {
				db, loaded := state.Open(dir, state.Options{})
				f := begin(t, cfg, db, loaded, makers{"p": one(&fakePlugin{})})
				if err := f.rt.accept().synchronize(nil, nil); err != nil {
					t.Fatal(err)
				}
				for _, a := range actions {
					if err := f.s.Act("p", a, 0); err != nil {
						t.Fatal(err)
					}
				}
				f.eventually("breaker "+tc.want, func() bool { return f.s.Status().Plugins[0].Breaker.State == tc.want })
				_ = f.end()
				if err := db.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestTheLastErrorIsTheCauseAndNotTheKillThatFollows: a plugin that refuses its configuration is stopped; the status says what it refused.
func TestTheLastErrorIsTheCauseAndNotTheKillThatFollows(t *testing.T) {
	t.Parallel()
	f := begin(t, load(t, [2]string{"p", sel("x") + "  restart: {backoff: 1m, maxBackoff: 1m}\n"}), nil, state.Loaded{}, makers{
		"p": one(&fakePlugin{configure: func() (*api.ConfigureResponse, error) { return nil, errors.New("unknown key \"frobnicate\"") }}),
	})
	if err := f.rt.accept().synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.eventually("backoff", func() bool { return f.s.plan().byName["p"].view.Load().state == "backoff" })
	if got := f.s.Status().Plugins[0].LastError; !strings.Contains(got, "frobnicate") {
		t.Errorf("the last error is %q", got)
	}
}

// TestTheGuardAndTheMachineAgreeAfterTwoOperatorsAtOnce: whichever of disable and enable is last, it is the last for both.
func TestTheGuardAndTheMachineAgreeAfterTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	f, _ := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{})})
	h := f.s.plan().byName["p"]
	for range 100 {
		var wg sync.WaitGroup
		wg.Go(func() { _ = f.s.Act("p", "disable", 0) })
		wg.Go(func() { _ = f.s.Act("p", "enable", 0) })
		wg.Wait()
		f.eventually("agreement", func() bool { return (h.guard.State().String() == "disabled") == (h.view.Load().state == "disabled") })
	}
}
