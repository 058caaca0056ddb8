package supervisor

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

func (f *fixture) missedBy() map[string]string {
	out := map[string]string{}
	for _, m := range f.s.Missed() {
		out[m.Plugin] = m.Reason
	}
	return out
}

func TestASecondSynchronizeOnOneConnectionIsTaken(t *testing.T) {
	t.Parallel()
	_, s := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{})})
	if err := s.synchronize(nil, nil); err != nil {
		t.Error(err)
	}
}

// TestAConnectionThatEndsBeforeSynchronizeCostsNoSubscription: a runtime that restarts at a bad moment is not one that knows fewer events.
func TestAConnectionThatEndsBeforeSynchronizeCostsNoSubscription(t *testing.T) {
	t.Parallel()
	f := begin(t, load(t, [2]string{"p", sel("x")}), nil, state.Loaded{}, makers{"p": one(&fakePlugin{})})
	f.rt.accept().cut()
	for range 2 {
		s := f.rt.accept()
		if err := s.synchronize(nil, nil); err != nil {
			t.Fatal(err)
		}
		f.ready("p")
		if !s.mask.IsSet(api.Event_UPDATE_POD_SANDBOX) {
			t.Error("UpdatePodSandbox is not subscribed")
		}
		s.cut()
	}
}

// TestWorkInALostReplyIsMissing: when the connection breaks during a creation the runtime goes on without the reply, and so without the work of the
// plugins that had answered.
func TestWorkInALostReplyIsMissing(t *testing.T) {
	t.Parallel()
	in, hold := make(chan struct{}), make(chan struct{})
	f, s := serve(t, load(t, [2]string{"done", sel("x")}, [2]string{"slow", sel("x") + "  timeouts: {default: 1500ms}\n"}), makers{
		"done": one(setEnv("A", "1")),
		"slow": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			close(in)
			<-hold
			return &api.CreateContainerResponse{}, nil
		}}),
	})
	p, c := pod("p", "x", "1"), ctr("p", "c")
	go func() { <-in; s.cut() }()
	if _, err := s.create(p, c); err == nil {
		t.Fatal("the creation was answered on a connection that is cut")
	}
	s = f.rt.accept() // dialled again: the supervisor knows that the connection is gone
	close(hold)
	if err := s.synchronize([]*api.PodSandbox{p}, []*api.Container{c}); err != nil {
		t.Fatal(err)
	}
	f.eventually("a record of the work that was lost", func() bool { return f.missedBy()["done"] != "" })
}

// TestARuntimeThatWasThereIsSaidNotToRun, and of one that never was that NRI may be off.
func TestARuntimeThatWasThereIsSaidNotToRun(t *testing.T) {
	t.Parallel()
	f, _ := serve(t, load(t), makers{})
	f.s.mu.Lock()
	before := f.s.sessions
	f.s.mu.Unlock()
	for sessions, want := range map[uint64]string{0: "NRI is off, or", before: "the runtime does not run: start it"} {
		f.s.mu.Lock()
		f.s.sessions = sessions
		f.s.mu.Unlock()
		f.s.noteUnavailable(&session{}, fs.ErrNotExist)
		f.s.mu.Lock()
		if c := f.s.conn; c.reason != "missing" || !strings.HasPrefix(c.hint, want) {
			t.Errorf("after %d sessions: %s, %q; want %q", sessions, c.reason, c.hint, want)
		}
		f.s.mu.Unlock()
	}
}

// TestContainersFromBeforeAreMissedByPluginsThatDoNotComeUp: whoever was not there when a container was created is recorded, also if it cannot be asked.
func TestContainersFromBeforeAreMissedByPluginsThatDoNotComeUp(t *testing.T) {
	t.Parallel()
	cfg := load(t, [2]string{"broken", sel("x") + "  restart: {backoff: 50ms}\n"}, [2]string{"off", sel("x")})
	f := begin(t, cfg, nil, state.Loaded{Manual: map[string]string{"off": "disabled"}}, makers{
		"broken": func(int) (*fakePlugin, error) { return nil, errors.New("cannot start") },
		"off":    one(&fakePlugin{}),
	})
	if err := f.rt.accept().synchronize([]*api.PodSandbox{pod("p", "x", "1")}, []*api.Container{ctr("p", "c")}); err != nil {
		t.Fatal(err)
	}
	f.eventually("a record for both plugins", func() bool { m := f.missedBy(); return m["broken"] != "" && m["off"] != "" })
}

// TestAContainerIDThatIsUsedAgainIsToldOnce: a plugin's turn in the container's former life is not one in its new life, and a plugin that is synchronized
// between the beginning of the creation and its turn hears of the container by one of the two only.
func TestAContainerIDThatIsUsedAgainIsToldOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	hold, in := make(chan struct{}), make(chan struct{})
	lives := 0
	f, s := serve(t, load(t, [2]string{"first", sel("x") + "  timeouts: {default: 1500ms}\n"}, [2]string{"p", sel("x")}), makers{
		"first": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			if lives++; lives == 2 {
				close(in)
				<-hold
			}
			return &api.CreateContainerResponse{}, nil
		}}),
		"p": one(&fakePlugin{
			sync: func(_ []*api.PodSandbox, ctrs []*api.Container) error {
				mu.Lock()
				defer mu.Unlock()
				told = nil
				for range ctrs {
					told = append(told, "snapshot")
				}
				return nil
			},
			create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, "creation")
				return &api.CreateContainerResponse{}, nil
			},
		}),
	})
	p, c := pod("p", "x", "1"), ctr("p", "c")
	if _, err := s.create(p, c); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := s.create(p, c); done <- err }()
	<-in
	f.s.plan().byName["p"].post(plugin.RuntimeUp{Session: 1})
	f.eventually("synchronized again", func() bool {
		return len(f.events(func(e Event) bool { x, ok := e.(PluginSynced); return ok && x.Plugin == "p" })) == 2
	})
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 {
		t.Errorf("told by %v", slices.Clone(told))
	}
}
