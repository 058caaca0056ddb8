package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// counting is a plugin whose incarnations note what they are told of containers.
type counting struct {
	mu    sync.Mutex
	incs  map[int]*hearsay
	delay time.Duration // of each synchronization
	fail  func(n int) error
}

// hearsay is what one incarnation was told since its last synchronization.
type hearsay struct {
	snapshot map[string]bool
	created  map[string]int
	gone     map[string]int
	syncs    int
}

func (c *counting) start(n int) (*fakePlugin, error) {
	if c.fail != nil {
		if err := c.fail(n); err != nil {
			return nil, err
		}
	}
	inc := &hearsay{}
	c.mu.Lock()
	c.incs[n] = inc
	c.mu.Unlock()
	return &fakePlugin{
		sync: func(_ []*api.PodSandbox, ctrs []*api.Container) error {
			time.Sleep(c.delay)
			c.mu.Lock()
			defer c.mu.Unlock()
			*inc = hearsay{snapshot: map[string]bool{}, created: map[string]int{}, gone: map[string]int{}, syncs: inc.syncs + 1}
			for _, ctr := range ctrs {
				inc.snapshot[ctr.GetId()] = true
			}
			return nil
		},
		create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			inc.created[r.GetContainer().GetId()]++
			a := &api.ContainerAdjustment{}
			a.AddEnv("BY", fmt.Sprint(n))
			return &api.CreateContainerResponse{Adjust: a}, nil
		},
		event: func(ev, id string) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if ev == "RemoveContainer" {
				inc.gone[id]++
			}
			return nil
		},
	}, nil
}

// load creates and removes containers one after the other, as a runtime does, until stop. It returns who adjusted each container that is left.
func (s *sessionOf) load(t *testing.T, p *api.PodSandbox, stop <-chan struct{}, made *atomic.Int64) (left map[string]string) {
	t.Helper()
	left = map[string]string{}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return left
		case <-tick.C:
		}
		all := made.Add(1)
		c := ctr("p", fmt.Sprintf("c%d", all))
		rpl, err := s.create(p, c)
		if err != nil {
			t.Errorf("create %s: %v", c.GetId(), err)
			return left
		}
		env := rpl.GetAdjust().GetEnv()
		if len(env) != 1 {
			t.Errorf("%s was adjusted by nobody: %v", c.GetId(), rpl.GetAdjust().GetAnnotations())
			continue
		}
		left[c.GetId()] = env[0].GetValue()
		if all%3 == 0 {
			if _, err := s.plugin.RemoveContainer(s.ctx(), &api.RemoveContainerRequest{Pod: p, Container: c}); err != nil {
				t.Errorf("remove %s: %v", c.GetId(), err)
			}
			delete(left, c.GetId())
		}
	}
}

func TestAnUpdateUnderLoadMissesNothingAndTellsNothingTwice(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		delay   time.Duration
		timeout string
		from    string // in the manifest, with a number that each update counts up
		inPlace bool
	}{
		"a quick synchronization":                      {0, "1500ms", `index: "%d"`, false},
		"one that is slower than the events":           {60 * time.Millisecond, "1500ms", `index: "%d"`, false},
		"one that takes longer than a call may":        {500 * time.Millisecond, "700ms", `index: "%d"`, false},
		"a configuration":                              {0, "1500ms", "config: {n: %d}", true},
		"a configuration that is slowly taken":         {60 * time.Millisecond, "1500ms", "config: {n: %d}", true},
		"one that is taken too slowly to do that live": {500 * time.Millisecond, "700ms", "config: {n: %d}", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := onDisk(t, [2]string{"a", "  timeouts: {default: " + tc.timeout + "}\n  config: {n: 10}\n" + sel("a")})
			plugin := &counting{incs: map[int]*hearsay{}, delay: tc.delay}
			f, s := serveFiles(t, fs, makers{"a": plugin.start})
			p := pod("p", "a", "1")
			if _, err := s.plugin.RunPodSandbox(s.ctx(), &api.RunPodSandboxRequest{Pod: p}); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			var left map[string]string
			var made atomic.Int64
			var load sync.WaitGroup
			load.Go(func() { left = s.load(t, p, stop, &made) })
			const updates = 3
			for i := range updates {
				f.eventually("some containers", func() bool { return made.Load() >= int64(10*(i+1)) })
				fs.edit("a", fmt.Sprintf(tc.from, 10+i), fmt.Sprintf(tc.from, 11+i))
				if r := f.reload(); r.Result != "success" {
					t.Errorf("update %d: %+v", i, r)
				}
			}
			close(stop)
			load.Wait()
			last := f.l.inc("a")
			f.eventually("the end of the others", func() bool { return f.pid("a") == last.pid })
			now := plugin.incs[last.pid-1000]
			f.eventually("to be told of all that is gone", func() bool { // a removal keeps nobody waiting
				plugin.mu.Lock()
				defer plugin.mu.Unlock()
				for id := range now.snapshot {
					if left[id] == "" && now.gone[id] == 0 {
						return false
					}
				}
				return true
			})
			plugin.mu.Lock()
			defer plugin.mu.Unlock()
			for id, by := range left {
				snap, made := now.snapshot[id], now.created[id]
				if snap == (made == 1) || made > 1 || !tc.inPlace && snap == (by == fmt.Sprint(last.pid-1000)) {
					t.Errorf("%s was made by incarnation %s; the last one (%d) was told of it by a snapshot: %v, by creations: %d", id, by, last.pid-1000, snap, made)
				}
			}
			for id, times := range now.gone {
				if left[id] != "" || times != 1 {
					t.Errorf("the last incarnation was told %d times that %s is gone", times, id)
				}
			}
			successors := updates
			if tc.inPlace {
				successors = 0
			}
			f.eventually("a line for each successor that took over", func() bool {
				return len(f.events(func(e Event) bool { _, ok := e.(PluginReplaced); return ok })) == successors
			})
			if n := len(f.events(func(e Event) bool { _, ok := e.(Fallback); return ok })); n != 0 {
				t.Errorf("%d events without the plugin's work", n)
			}
		})
	}
}

func TestAVersionThatDoesNotBecomeReadyLeavesTheOldOneInService(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(n int) (*fakePlugin, error){
		"it does not start": func(int) (*fakePlugin, error) { return nil, errors.New("no such library") },
		"it refuses its pods": func(int) (*fakePlugin, error) {
			return &fakePlugin{sync: func([]*api.PodSandbox, []*api.Container) error { return errors.New("no such library") }}, nil
		},
		"it refuses to be asked": func(int) (*fakePlugin, error) {
			return &fakePlugin{configure: func() (*api.ConfigureResponse, error) { return nil, errors.New("no such library") }}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := onDisk(t, [2]string{"a", sel("a")})
			var bad atomic.Bool
			f, s := serveFiles(t, fs, makers{"a": func(n int) (*fakePlugin, error) {
				if bad.Load() {
					return broken(n)
				}
				return setEnv("N", fmt.Sprint(n)), nil
			}})
			before := f.pid("a")
			bad.Store(true)
			fs.edit("a", "path: /bin/true", "path: /bin/true, args: [x]")
			for range 2 { // the second one tries again
				r := f.reload()
				if got := changes(r); r.Result != "partial" || len(got) != 1 || !strings.Contains(got[0], "no such library") {
					t.Fatalf("%s %v", r.Result, got)
				}
				if f.pid("a") != before {
					t.Fatal("another process is in service")
				}
			}
			if rpl, err := s.create(pod("p", "a", "1"), ctr("p", "c")); err != nil || len(rpl.GetAdjust().GetEnv()) != 1 {
				t.Fatalf("%v, %v", rpl, err)
			}
			bad.Store(false)
			if r := f.reload(); r.Result != "success" || f.pid("a") == before {
				t.Errorf("mended: %+v", r)
			}
		})
	}
}

// configured is a plugin that works by the number in its configuration, and refuses one below zero.
func configured(t *testing.T, made *atomic.Int64) func(int) (*fakePlugin, error) {
	t.Helper()
	return func(int) (*fakePlugin, error) {
		made.Add(1)
		var n atomic.Int64
		p := setEnv("N", "")
		p.configured = func(config string) error {
			var c struct{ N int64 }
			if err := json.Unmarshal([]byte(config), &c); err != nil || c.N < 0 {
				return fmt.Errorf("n is %d", c.N)
			}
			n.Store(c.N)
			return nil
		}
		p.create = func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			a := &api.ContainerAdjustment{}
			a.AddEnv("N", fmt.Sprint(n.Load()))
			return &api.CreateContainerResponse{Adjust: a}, nil
		}
		return p, nil
	}
}

func TestAChangedConfigurationReachesAPluginThatAcceptsItWithoutANewProcess(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"RollingUpdate", "Recreate"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			fs := onDisk(t, [2]string{"a", "  timeouts: {default: 1500ms}\n  config: {n: 1}\n  updateStrategy: {type: " + strategy + "}\n" + sel("a")})
			var made atomic.Int64
			f, s := serveFiles(t, fs, makers{"a": configured(t, &made)})
			before := f.pid("a")
			p, n := pod("p", "a", "1"), 0
			works := func(want string) {
				t.Helper()
				n++
				rpl, err := s.create(p, ctr("p", fmt.Sprint("c", n)))
				if err != nil || len(rpl.GetAdjust().GetEnv()) != 1 || rpl.GetAdjust().GetEnv()[0].GetValue() != want {
					t.Fatalf("container %d is adjusted by %v, %v; want N=%s", n, rpl.GetAdjust(), err, want)
				}
			}
			works("1")
			fs.edit("a", "{n: 1}", "{n: 2}")
			if r := f.reload(); r.Result != "success" || changes(r)[0] != "a changed configured" || f.pid("a") != before {
				t.Fatalf("%+v, process %d, before %d", r, f.pid("a"), before)
			}
			works("2")
			fs.edit("a", "{n: 2}", "{n: -1}") // neither this process nor a new one takes it
			r := f.reload()
			if got := changes(r); r.Result != "partial" || !strings.Contains(got[0], "n is -1") {
				t.Fatalf("%s %v", r.Result, got)
			}
			if strategy == "RollingUpdate" {
				works("2")
				if f.pid("a") != before {
					t.Error("the process that works has been replaced")
				}
			}
			fs.edit("a", "{n: -1}", "{n: 3}")
			if r := f.reload(); r.Result != "success" {
				t.Fatalf("%+v", r)
			}
			works("3")
			if f := f.events(func(e Event) bool { _, ok := e.(Fallback); return ok }); len(f) != 0 {
				t.Errorf("events without the plugin's work: %+v", f)
			}
		})
	}
}

// TestAPluginThatRefusesAConfigurationNowIsReplacedByOneThatTakesIt: as one that reads it at its start only.
func TestAPluginThatRefusesAConfigurationNowIsReplacedByOneThatTakesIt(t *testing.T) {
	t.Parallel()
	for strategy, most := range map[string]int{"RollingUpdate": 2, "Recreate": 1} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			fs := onDisk(t, [2]string{"a", "  config: {n: 1}\n  updateStrategy: {type: " + strategy + "}\n" + sel("a")})
			var mu sync.Mutex
			beside := 0
			var f *fixture
			f, _ = serveFiles(t, fs, makers{"a": func(n int) (*fakePlugin, error) {
				p, once := setEnv("N", fmt.Sprint(n)), false
				p.configured = func(string) error {
					if once {
						return errors.New("only at the start")
					}
					once = true
					if n > 1 { // f is set: the first is in service
						mu.Lock()
						defer mu.Unlock()
						beside = f.l.living("a")
					}
					return nil
				}
				return p, nil
			}})
			before := f.pid("a")
			fs.edit("a", "{n: 1}", "{n: 2}")
			if r := f.reload(); r.Result != "success" {
				t.Fatalf("%+v", r)
			}
			f.eventually("another process", func() bool { p := f.pid("a"); return p != 0 && p != before })
			mu.Lock()
			defer mu.Unlock()
			if beside != most {
				t.Errorf("%d processes lived when the new one was configured, want %d", beside, most)
			}
		})
	}
}
