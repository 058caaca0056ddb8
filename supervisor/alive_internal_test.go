package supervisor

import (
	"strings"
	"testing"
	"time"
)

func TestTheProbeSaysWhereTheWayOfAnEventIsBlockedAndComesBack(t *testing.T) {
	t.Parallel()
	f, _ := serve(t, load(t, [2]string{"a", sel("a")}), makers{"a": one(&fakePlugin{})})
	alive := func() bool { ok, _ := f.s.Alive(); return ok }
	f.eventually("a probe that comes back", alive)
	held, release := make(chan struct{}), make(chan struct{})
	f.s.plan().byName["a"].box.put(message{fn: func() { close(held); <-release }})
	<-held
	for range 2 { // the second does not begin another walk
		if ok, why := f.s.Alive(); ok || !strings.Contains(why, "the loop of plugin a has not turned") {
			t.Errorf("alive %v, %q with a loop that does not turn", ok, why)
		}
	}
	close(release)
	f.eventually("a probe that comes back after it", alive)
	f.s.mu.Lock()
	ok, why := f.s.Alive()
	f.s.mu.Unlock()
	if ok || !strings.Contains(why, "the session's lock") {
		t.Errorf("alive %v, %q with a lock that is held", ok, why)
	}
	f.eventually("a probe that comes back in the end", alive)
}

func TestAConnectionOnWhichARequestIsStuckIsClosedAndMadeAnew(t *testing.T) {
	t.Parallel()
	for name, get := range map[string]func(*session){
		"a request that is never answered": func(se *session) { se.flow.enter(time.Now().Add(-time.Hour)) },
		"a reader that does not read": func(se *session) { // it reads now: until something arrives, nothing but this says otherwise
			se.conn.away.Store(int64(time.Since(se.conn.begun) - time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := serve(t, load(t, [2]string{"a", sel("a")}), makers{"a": one(setEnv("A", "1"))})
			se := f.s.current.Load()
			get(se)
			if ok, why := f.s.Alive(); ok || !strings.Contains(why, "for 1h") {
				t.Errorf("alive %v, %q", ok, why)
			}
			_ = s
			again := f.rt.accept()
			if err := again.synchronize(nil, nil); err != nil {
				t.Fatal(err)
			}
			f.ready("a")
			rpl, err := again.create(pod("p", "a", "1"), ctr("p", "c"))
			if err != nil || len(rpl.GetAdjust().GetEnv()) != 1 {
				t.Errorf("afterwards: %v, %v", rpl, err)
			}
			f.eventually("a probe that comes back", func() bool { ok, _ := f.s.Alive(); return ok })
		})
	}
}
