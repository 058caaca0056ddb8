package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

func TestWhenAllWentWellEveryPromiseIsKept(t *testing.T) {
	t.Parallel()
	s := newDemoScene(t)
	r, err := s.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.verdict(); err != nil {
		t.Error(err)
	}
	if r.Containers != demoLeast+2 || r.RecoveryContainers != 2 || r.UnselectedAffected != 0 || r.Registrations != 1 || r.DeadlineMissed != 0 || r.onlySlow {
		t.Errorf("%+v", r)
	}
	if want := (demoLatency{1, 1}); r.Latency != want || r.Baseline != want {
		t.Errorf("latencies %v and %v, want 1 ms throughout", r.Latency, r.Baseline)
	}
	if r.SetAside.Timeouts != 1 || r.SetAside.Hangs != 1 {
		t.Errorf("set aside %+v, want one timeout of one hang", r.SetAside)
	}
	for _, p := range r.Plugins {
		if p.Adjusted == 0 || p.Selected != p.Adjusted+p.missed() || (p.missed() == 0) != (p.Name == demoGPU().name) || !p.InService {
			t.Errorf("%+v", p)
		}
	}
	if got := r.Plugins[1]; got.Restarts != 1 || got.BreakerOpened != 1 || got.BreakerClosed != 1 || got.Missed["timeout"] != 1 {
		t.Errorf("%+v", got)
	}
}

func TestEachWayToBreakAPromiseIsSeenAndNamed(t *testing.T) {
	t.Parallel()
	net, vol := demoNet(), demoVol()
	gpuOnly := func(p demoPod) bool { return unselectedDemo(p) && demoGPU().selects(p) }
	missedNet := func(s *demoScene) func(demoPod) bool {
		return func(p demoPod) bool { return net.selects(p) && !net.worked(s.pass.containers[p.Number]) }
	}
	for _, tc := range []struct {
		name    string
		spoil   func(*testing.T, *demoScene)
		promise string
		want    string
	}{
		{"a container that no broken plugin selects fails", func(t *testing.T, s *demoScene) {
			s.change(s.find(t, 0, unselectedDemo), func(c *demoContainer) { c.Err = "boom" })
		}, "blast radius", "1 container that no broken plugin selected failed"},
		{"a container that no broken plugin selects never comes up", func(t *testing.T, s *demoScene) {
			delete(s.pass.containers, s.find(t, 0, unselectedDemo).Number)
		}, "blast radius", "never came up"},
		{"a container gets a variable more", func(t *testing.T, s *demoScene) {
			p := s.find(t, 0, unselectedDemo)
			s.change(p, func(c *demoContainer) {
				q := p
				q.Labels = map[string]string{vol.labelKey: vol.labelValue}
				c.Reply = demoReplyBytes(t, q, demoPlugins(), nil)
			})
		}, "blast radius", "differ from the baseline"},
		{"a container of the healthy plugin gets nothing", func(t *testing.T, s *demoScene) {
			s.change(s.find(t, 0, gpuOnly), func(c *demoContainer) { c.Reply = nil })
		}, "blast radius", "differ from the baseline"},
		{"more than one in a hundred wait too long", func(_ *testing.T, s *demoScene) {
			n := 0
			for _, p := range s.pass.pods[:demoLeast] {
				if unselectedDemo(p) && n < 4 {
					n++
					s.change(p, func(c *demoContainer) { c.Started += 20 * time.Millisecond })
				}
			}
		}, "blast radius", "at p99"},
		{"one waits longer than a hang's timeout without a hang", func(t *testing.T, s *demoScene) {
			p := s.find(t, 250, unselectedDemo)
			s.change(p, func(c *demoContainer) { c.Started += demoTimeout + 20*time.Millisecond })
		}, "blast radius", "waited longer than a plugin's timeout allows"},
		{"one waits for two timeouts behind one hang", func(t *testing.T, s *demoScene) {
			hang := s.find(t, 101, net.selects)
			behind := s.pass.containers[hang.Number]
			s.change(s.find(t, 250, unselectedDemo), func(c *demoContainer) {
				c.Arrived, c.Started = behind.CreateBegin+time.Millisecond, behind.CreateBegin+2*demoTimeout+20*time.Millisecond
			})
		}, "blast radius", "waited longer than a plugin's timeout allows"},
		{"one hang costs two timeouts", func(t *testing.T, s *demoScene) {
			p := s.find(t, 101, func(p demoPod) bool {
				return strings.Contains(string(s.pass.containers[p.Number].Reply), "net-tuner=busy")
			})
			s.change(p, func(c *demoContainer) {
				c.CreateEnd, c.Started = c.CreateBegin+demoTimeout, c.CreateBegin+demoTimeout
				c.Reply = demoReplyBytes(t, p, demoPlugins(), map[string]string{net.name: "timeout"})
			})
			i := slices.IndexFunc(s.pass.lines, func(l demoLine) bool { return l.ContainerID == p.id() })
			s.pass.lines[i].Reason = "timeout"
			s.count("containers_missed_total", 1, "plugin", net.name, "reason", "timeout")
			s.count("containers_missed_total", -1, "plugin", net.name, "reason", "busy")
		}, "blast radius", "1 hang cost the node 2 timeouts"},
		{"a timeout takes longer than it may", func(t *testing.T, s *demoScene) {
			s.change(s.find(t, 101, net.selects), func(c *demoContainer) { c.CreateEnd += 200 * time.Millisecond })
		}, "blast radius", "one hang kept the node waiting for 500 ms"},
		{"too much is set aside to judge the rest", func(t *testing.T, s *demoScene) {
			behind := s.pass.containers[s.find(t, 101, net.selects).Number]
			for i, p := range s.pass.pods[:demoLeast] {
				if unselectedDemo(p) && i%3 > 0 {
					s.change(p, func(c *demoContainer) {
						c.Arrived, c.Started = behind.CreateBegin+time.Millisecond, behind.CreateBegin+2*time.Millisecond
					})
				}
			}
		}, "blast radius", "too many to judge the others by"},
		{"the runtime's deadline passes", func(_ *testing.T, s *demoScene) { s.pass.late = 1 }, "never late, never lost", "1 request of the runtime not answered in its 2s"},
		{"the supervisor says that it was late", func(_ *testing.T, s *demoScene) {
			s.count("runtime_deadline_missed_total", 2, "event", "StartContainer")
		}, "never late, never lost", "2 requests of the runtime not answered"},
		{"the runtime sees two registrations", func(_ *testing.T, s *demoScene) { s.pass.registrations = 2 }, "never late, never lost", "2 registrations of the supervisor"},
		{"the supervisor tells of two sessions", func(_ *testing.T, s *demoScene) { s.count("runtime_sessions_total", 1) }, "never late, never lost", "the supervisor 2"},
		{"a plugin is not up", func(_ *testing.T, s *demoScene) {
			s.count("plugin_up", -1, "plugin", "gpu-env")
		}, "never late, never lost", "gpu-env is not in service"},
		{"a breaker stays open", func(_ *testing.T, s *demoScene) {
			s.count("breaker_state", -1, "plugin", vol.name, "state", "closed")
		}, "never late, never lost", "vol-audit is not in service"},
		{"a plugin is up and does not work", func(t *testing.T, s *demoScene) {
			p := s.pass.pods[s.pass.probes[vol.name]]
			s.change(p, func(c *demoContainer) {
				c.Reply = demoReplyBytes(t, p, demoPlugins(), map[string]string{vol.name: "error"})
			})
			s.miss(p, vol.name, "error")
		}, "never late, never lost", "vol-audit is not in service"},
		{"recovery takes too long", func(_ *testing.T, s *demoScene) { s.pass.unfinished = []string{"it was not back"} }, "never late, never lost", "it was not back"},
		{"a plugin that came back does not know a container", func(_ *testing.T, s *demoScene) {
			s.pass.known[net.name] = s.pass.known[net.name][1:]
		}, "never late, never lost", "net-tuner knows"},
		{"a plugin that came back knows a container that is gone", func(_ *testing.T, s *demoScene) {
			s.pass.known[vol.name] = append(s.pass.known[vol.name], "ctr-9999")
		}, "never late, never lost", "too many ctr-9999"},
		{"work is missing and nobody tells", func(t *testing.T, s *demoScene) {
			s.change(s.find(t, 250, vol.selects), func(c *demoContainer) { c.Reply = nil })
		}, "never silent", "vol-audit was to do its work on"},
		{"a miss has no log line", func(t *testing.T, s *demoScene) {
			p := s.find(t, 130, missedNet(s))
			s.pass.lines = slices.DeleteFunc(s.pass.lines, func(l demoLine) bool { return l.ContainerID == p.id() })
		}, "never silent", "the log and the runtime differ"},
		{"the log tells of a miss that was none", func(t *testing.T, s *demoScene) {
			p := s.find(t, 250, net.selects)
			s.pass.lines = append(s.pass.lines, demoLine{Msg: demoMsgMissing, Plugin: net.name, ContainerID: p.id(), Event: "CreateContainer", Reason: "busy"})
		}, "never silent", "the log and the runtime differ"},
		{"a miss has no record", func(_ *testing.T, s *demoScene) {
			s.pass.records = slices.DeleteFunc(s.pass.records, func(m supervisor.MissedWork) bool { return m.Plugin == vol.name })
		}, "never silent", "the supervisor's record and the runtime differ"},
		{"a container does not carry the annotation", func(t *testing.T, s *demoScene) {
			p := s.find(t, 130, missedNet(s))
			s.change(p, func(c *demoContainer) {
				c.Reply = demoReplyBytes(t, p, slices.DeleteFunc(demoPlugins(), func(pl demoPlugin) bool { return pl.name == net.name }), nil)
			})
		}, "never silent", "do not carry the annotation"},
		{"the log and the metrics give different reasons", func(_ *testing.T, s *demoScene) {
			s.count("containers_missed_total", -1, "plugin", vol.name, "reason", "unavailable")
			s.count("containers_missed_total", 1, "plugin", vol.name, "reason", "error")
		}, "never silent", "the metrics count"},
		{"the metrics count a miss too few", func(_ *testing.T, s *demoScene) {
			s.count("containers_missed_total", -1, "plugin", net.name, "reason", "busy")
		}, "never silent", "net-tuner was to do its work on"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newDemoScene(t)
			tc.spoil(t, s)
			r, err := s.judge(t)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, p := range r.Promises {
				if p.Kept != (len(p.Broken) == 0) {
					t.Errorf("promise %+v contradicts itself", p)
				}
				found = found || p.Name == tc.promise && strings.Contains(strings.Join(p.Broken, "\n"), tc.want)
			}
			if !found {
				t.Errorf("want %q broken with %q, got %+v", tc.promise, tc.want, r.Promises)
			}
			if r.verdict() == nil {
				t.Error("the verdict is that all promises are kept")
			}
		})
	}
}

func TestContainersInTheQueueBehindAHangAreSetAsideUntilItHasDrained(t *testing.T) {
	t.Parallel()
	s := newDemoScene(t)
	hang := s.pass.containers[s.find(t, 101, demoNet().selects).Number]
	var free []demoPod
	for _, p := range s.pass.pods[:demoLeast] {
		if unselectedDemo(p) {
			free = append(free, p)
		}
	}
	at := func(i int, arrived, started time.Duration) {
		s.change(free[i], func(c *demoContainer) { c.Arrived, c.Started = arrived, started })
	}
	const wait = 50 * time.Millisecond
	at(0, hang.CreateBegin-2*wait, hang.CreateBegin-wait)                     // before the hang
	at(1, hang.CreateBegin-wait, hang.CreateBegin+wait)                       // it began before
	at(2, hang.CreateBegin+wait, hang.CreateEnd+2*wait)                       // the last that the hang kept waiting
	at(3, hang.CreateEnd+wait, hang.CreateEnd+3*wait)                         // came while the queue drained
	at(4, hang.CreateEnd+2*wait+time.Millisecond, hang.CreateEnd+2*wait+wait) // after that
	at(5, hang.CreateEnd+4*wait, hang.CreateEnd+4*wait+time.Millisecond)      // long after that
	r, err := s.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	if r.SetAside.Containers != 3 || r.SetAside.LongestMs != 350 {
		t.Errorf("set aside %+v, want 3 containers of which one waited 350 ms", r.SetAside)
	}
}

func TestEverythingThatBrokeIsTold(t *testing.T) {
	t.Parallel()
	s := newDemoScene(t)
	failed, changed := s.find(t, 0, unselectedDemo), s.find(t, 50, unselectedDemo)
	s.change(failed, func(c *demoContainer) { c.Err = "boom" })
	s.change(changed, func(c *demoContainer) { c.Reply = []byte{0x12, 0} })
	n := 0
	for _, p := range s.pass.pods[100:demoLeast] {
		if unselectedDemo(p) && n < 4 {
			n++
			s.change(p, func(c *demoContainer) { c.Started += demoTimeout + 20*time.Millisecond })
		}
	}
	s.change(s.find(t, 101, demoNet().selects), func(c *demoContainer) { c.CreateEnd += 200 * time.Millisecond })
	s.pass.late, s.pass.registrations, s.pass.unfinished = 1, 0, []string{"it was not back"}
	s.count("plugin_up", -1, "plugin", "gpu-env")
	s.count("containers_missed_total", 1, "plugin", demoNet().name, "reason", "busy")
	s.pass.records = nil
	r, err := s.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{5, 4, 4} {
		if p := r.Promises[i]; len(p.Broken) != want {
			t.Errorf("%s: %d things are told to be broken, want %d: %q", p.Name, len(p.Broken), want, p.Broken)
		}
	}
	if r.UnselectedAffected != 6 || r.onlySlow {
		t.Errorf("%d containers are affected, want 6; onlySlow = %t", r.UnselectedAffected, r.onlySlow)
	}
}

func TestEveryTimeoutThatWasTooManyOrTooLongIsTold(t *testing.T) {
	t.Parallel()
	s := newDemoScene(t)
	s.count("plugin_exits_total", -1, "plugin", demoNet().name, "reason", "hung")
	s.count("plugin_exits_total", 1, "plugin", demoNet().name, "reason", "exit_code")
	hang := s.find(t, 101, demoNet().selects)
	s.change(hang, func(c *demoContainer) { c.CreateEnd += 200 * time.Millisecond })
	behind := s.pass.containers[hang.Number]
	for _, p := range s.pass.pods[:demoLeast] {
		if unselectedDemo(p) && p.Number%3 > 0 {
			s.change(p, func(c *demoContainer) { c.Arrived, c.Started = behind.CreateBegin+1, behind.CreateBegin+2 })
		}
	}
	r, err := s.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"0 hangs cost the node 1 timeout", "kept the node waiting for 500 ms", "too many to judge the others by"} {
		if got := r.Promises[0].Broken; len(got) != 3 || !strings.Contains(got[i], want) {
			t.Errorf("want three things broken, the one at %d with %q; got %q", i, want, got)
		}
	}
}

func TestOnlyWaitsThatWereTooLongAreMeasuredAgain(t *testing.T) {
	t.Parallel()
	slow := newDemoScene(t)
	for n, c := range slow.pass.containers {
		c.Started += 20 * time.Millisecond
		slow.pass.containers[n] = c
	}
	r, err := slow.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	if r.verdict() == nil || !r.onlySlow {
		t.Errorf("waits of 21 ms, 1 ms without the plugins: onlySlow = %t, verdict %v", r.onlySlow, r.verdict())
	}
	slow.pass.registrations = 2
	if r, err = slow.judge(t); err != nil || r.onlySlow {
		t.Errorf("a second registration is not the fault of a busy machine: onlySlow = %t, error %v", r.onlySlow, err)
	}
}

func TestWhatProvesNothingIsAnError(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*demoScene){
		"never acted": func(s *demoScene) {
			s.count("plugin_exits_total", -1, "plugin", demoVol().name, "reason", "exit_code")
		},
		"baseline: container": func(s *demoScene) {
			c := s.base.containers[7]
			c.Err = "boom"
			s.base.containers[7] = c
		},
		"baseline: nothing is known": func(s *demoScene) { delete(s.base.containers, 7) },
		"baseline: gpu-env": func(s *demoScene) {
			for n, c := range s.base.containers {
				c.Reply = nil
				s.base.containers[n] = c
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDemoScene(t)
			spoil(s)
			if r, err := s.judge(t); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("result %v, error %v; want an error with %q", r, err, name)
			}
		})
	}
}

func TestAPercentileIsTheNearestRank(t *testing.T) {
	t.Parallel()
	var list []time.Duration
	if got := demoPercentile(list, 99); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
	for i := range 200 {
		list = append(list, time.Duration(i+1))
	}
	for percent, want := range map[int]time.Duration{1: 2, 50: 100, 99: 198, 100: 200} {
		if got := demoPercentile(list, percent); got != want {
			t.Errorf("p%d of 1 to 200 = %d, want %d", percent, got, want)
		}
	}
	if got := demoPercentile(list[:1], 1); got != 1 {
		t.Errorf("p1 of one = %d", got)
	}
}
