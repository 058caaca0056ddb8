package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// creation is one container of the test below: when it existed, and whose work is in it.
type creation struct {
	id string
	at int64 // the runtime had its answer; nanoseconds since the epoch of clocks
	by map[string]bool
}

// epoch is what the probe was told of containers: by a snapshot, and of what was created after it.
type epoch struct {
	begin    int64 // the process before still lived; nanoseconds since the epoch of clocks
	snapshot map[string]bool
	created  map[string]int
}

func (p *probe) epochs() []*epoch {
	p.t.Helper()
	var out []*epoch
	var last probeLine
	begin := int64(0)
	for _, l := range p.lines(func(probeLine) bool { return true }) {
		if l.PID != last.PID {
			begin = last.At
		}
		last = l
		switch l.What {
		case "Synchronize":
			e := &epoch{begin: begin, snapshot: map[string]bool{}, created: map[string]int{}}
			for _, id := range l.Known {
				e.snapshot[id] = true
			}
			out = append(out, e)
		case "CreateContainer":
			if len(out) == 0 {
				p.t.Fatalf("%s: a creation before any synchronization", p.name)
			}
			out[len(out)-1].created[l.ID]++
		}
	}
	return out
}

// TestEachContainerIsSeenOnceInAnEpochWhilePluginsRestartInALoop: as part of the snapshot or as a creation, by a plugin built with the SDK and by a stock one, while both are killed and
// restarted during 500 creations.
func TestEachContainerIsSeenOnceInAnEpochWhilePluginsRestartInALoop(t *testing.T) {
	t.Parallel()
	const creations = 500
	rt := harness.NewRuntime(t)
	sdk, stock := newProbe(t, "sdk"), newProbe(t, "stock")
	both := "  timeouts: {default: 1500ms}\n  selector: {podSelector: {matchLabels: {probe: both}}}"
	often := func(p *probe, index string) string { // exits are what is tried: no crash loop
		env := fmt.Sprintf(`, "adjust": {"env": [{"key": "BY_%s", "value": "1"}]}`, strings.ToUpper(p.name))
		return strings.Replace(p.manifest(index, env, both), "restart: {backoff: 50ms}", "restart: {backoff: 10ms, crashLoop: {exits: 1000}}", 1)
	}
	sup := start(t, rt, teams, often(sdk, "10")+strings.Replace(often(stock, "20"), "exec: {path:", "exec: {protocol: nri, path:", 1), "sdk", "stock")
	pod := harness.Pod("default", "p", "probe", "both")
	if err := rt.RunPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	var list []creation
	var made atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := range creations {
			<-tick.C
			c := harness.Container(pod, fmt.Sprint("c", n))
			rpl, err := rt.Create(t.Context(), pod, c)
			if err != nil {
				t.Errorf("create %s: %v", c.GetId(), err)
				return
			}
			made.Add(1)
			got := env(rpl.GetAdjust())
			list = append(list, creation{c.GetId(), time.Now().UnixNano(), map[string]bool{"sdk": got["BY_SDK"] == "1", "stock": got["BY_STOCK"] == "1"}})
		}
	}()
	rounds := 1
	for working := true; working; {
		for _, p := range []*probe{sdk, stock} {
			if rounds%2 == 0 {
				act(t, sup, "restart", p.name)
			} else if err := syscall.Kill(sup.PluginPID(p.name), syscall.SIGKILL); err != nil {
				t.Fatalf("kill %s: %v", p.name, err)
			}
		}
		rounds++
		sup.Ready(rounds, "sdk")
		sup.Ready(rounds, "stock")
		next := made.Load() + 50 // so that each incarnation sees some
		harness.Eventually(t, "more containers", func() bool { return made.Load() >= min(next, creations) })
		working = made.Load() < creations
	}
	<-done
	for _, p := range []*probe{sdk, stock} { // the last one is told of what all before it had to do without
		act(t, sup, "restart", p.name)
	}
	sup.Ready(rounds+1, "sdk")
	sup.Ready(rounds+1, "stock")
	if rounds < 3 {
		t.Fatalf("the plugins were restarted %d times during %d creations", rounds, creations)
	}
	for _, p := range []*probe{sdk, stock} {
		work := 0
		all := p.epochs()
		for n, e := range all {
			for id, times := range e.created {
				if times != 1 || e.snapshot[id] {
					t.Errorf("%s, epoch %d: %s is in the snapshot: %v, and %d creations", p.name, n, id, e.snapshot[id], times)
				}
			}
			for _, c := range list {
				if c.at < e.begin && !e.snapshot[c.id] {
					t.Errorf("%s, epoch %d: %s was there before the process that came before ended, and is not in the snapshot", p.name, n, c.id)
				}
			}
		}
		for _, c := range list {
			asked := 0
			for _, e := range all {
				asked += e.created[c.id]
			}
			if c.by[p.name] && asked != 1 || asked > 1 {
				t.Errorf("%s: %s was created with its work: %v, and %d creations", p.name, c.id, c.by[p.name], asked)
			}
			if c.by[p.name] {
				work++
			}
		}
		last := all[len(all)-1]
		missed := len(slices.DeleteFunc(sup.Missed(), func(m harness.MissedWork) bool { return m.Plugin != p.name }))
		if len(last.snapshot) != creations || work+missed != creations {
			t.Errorf("%s: in the end %d containers are known, %d have its work and %d miss it, of %d", p.name, len(last.snapshot), work, missed, creations)
		}
		t.Logf("%s: %d epochs, %d of %d containers with its work", p.name, len(all), work, creations)
	}
}
