package plugin_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// decoder turns bytes into inputs, two bytes each: what, and which. It follows the machine closely enough that random bytes lead into every phase, and is otherwise free to lie:
// to answer what nobody asked, to fire timers twice, early or never, to name incarnations that are gone or yet to come. Only ids of calls are unique, as they must be.
type decoder struct {
	m      *plugin.Machine
	w      *watch
	now    time.Time
	timers []plugin.Timer
	asked  plugin.CallID
	sync   uint64
	calls  plugin.CallID
}

func (d *decoder) inc(arg byte) plugin.Incarnation {
	switch inc := d.m.Incarnation(); {
	case arg%8 == 7 && inc > 0:
		return inc - 1
	case arg%8 == 6:
		return inc + 1
	default:
		return inc
	}
}

// id is the call in flight, the one that the guard was asked about, or any other.
func (d *decoder) id(arg byte) plugin.CallID {
	if flying, ok := d.m.Flying(); ok && arg%2 == 0 {
		return flying
	}
	if arg%3 > 0 {
		return d.asked
	}
	return plugin.CallID(arg)%(d.calls+1) + 1
}

func (d *decoder) ref(arg byte) plugin.Ref {
	r := plugin.Ref{Pod: string('a' + rune(arg%3))}
	if arg&4 != 0 {
		r.Container = string('x' + rune(arg>>3%3))
	}
	return r
}

func pick[T any](arg byte, from []T) T { return from[int(arg)%len(from)] }

func (d *decoder) call(what, arg byte) plugin.Input {
	d.calls++
	r := plugin.Request{ID: d.calls, Ref: d.ref(arg), Timeout: 500 * time.Millisecond, Overdue: 5 * time.Second, Blocking: what&1 == 0}
	r.Event, r.PodKey = api.Event(1+int(arg>>2)%int(api.Event_LAST-1)), r.Ref.Pod
	r.Vanished = !r.Blocking && arg&3 == 3
	if r.Blocking {
		r.Deadline = d.now.Add(time.Duration(arg) * 5 * time.Millisecond)
		r.Until = d.now.Add(time.Duration(arg%16) * 100 * time.Millisecond)
	}
	return plugin.Call{Request: r}
}

// input decodes one input.
func (d *decoder) input(what, arg byte) plugin.Input {
	inc := d.inc(arg)
	switch what % 32 {
	case 0, 1, 2, 3:
		return d.call(what, arg)
	case 4, 5, 6:
		return plugin.Admitted{ID: d.id(arg | 1)}
	case 7:
		return plugin.Refused{ID: d.id(arg | 1), Reason: pick(arg, breaker.Reasons()), Manual: arg&64 != 0}
	case 8, 9, 10:
		return plugin.Returned{Inc: inc, ID: d.id(arg), Outcome: pick(arg, breaker.Outcomes())}
	case 11:
		return plugin.Cancel{ID: d.id(arg)}
	case 12:
		return plugin.Dropped{Ref: d.ref(arg)}
	case 13:
		return plugin.Removed{Ref: d.ref(arg)}
	case 14, 15:
		return plugin.Launched{Inc: inc, InPlace: arg&16 != 0}
	case 16:
		return plugin.LaunchFailed{Inc: inc, Lack: arg&24 == 24}
	case 17:
		return plugin.Exited{Inc: inc}
	case 18:
		return plugin.ConnectionLost{Inc: inc}
	case 19:
		return plugin.RuntimeUp{Session: uint64(arg%4) + 1}
	case 20:
		return plugin.RuntimeDown{}
	case 21, 22:
		return plugin.Synced{Inc: inc, Sync: d.sync - uint64(arg>>7), Mask: api.ValidEvents >> (arg % 4), Known: []plugin.Ref{d.ref(arg)}, NewVersion: arg&32 != 0}
	case 23:
		return plugin.SyncFailed{Inc: inc, Sync: d.sync - uint64(arg>>7), Refused: arg&64 != 0}
	case 24:
		return pick(arg, []plugin.Input{plugin.HealthFailed{Inc: inc}, plugin.HealthOK{Inc: inc}})
	case 25:
		return plugin.Opened{After: time.Duration(arg) * time.Second, Manual: arg%5 == 0}
	case 26:
		return plugin.Reset{}
	case 27:
		return pick(arg, []plugin.Input{plugin.Start{}, plugin.Start{Disabled: true}, plugin.Disable{}, plugin.Enable{}, plugin.Restart{}, plugin.Stop{}, plugin.Enable{}, plugin.Replace{}, plugin.Reconfigure{}, plugin.Reconfigure{Restart: true}})
	case 28, 29, 30: // an armed timer, whether it is due or not
		if len(d.timers) > 0 {
			return d.timers[len(d.timers)-1-int(arg)%len(d.timers)]
		}
		return plugin.Timer{}
	default:
		return plugin.Timer{Kind: plugin.TimerKind(arg % 8), Inc: inc, ID: d.id(arg), Seq: uint64(arg)}
	}
}

// run steps a machine through data and returns the first broken promise.
func (d *decoder) run(data []byte) error {
	for i := 0; i+1 < len(data); i += 2 {
		d.now = d.now.Add(time.Duration(data[i]>>5) * time.Duration(data[i+1]) * time.Millisecond)
		in := d.input(data[i], data[i+1])
		effects := slices.Clone(d.m.Step(d.now, in))
		if err := d.w.step(d.now, d.m, in, effects); err != nil {
			return err
		}
		for _, e := range effects {
			if e, ok := e.(plugin.Admit); ok {
				d.asked = e.ID
			}
			if e, ok := e.(plugin.Arm); ok {
				d.timers = append(d.timers, e.Timer)
			}
			if e, ok := e.(plugin.Synchronize); ok {
				d.sync = e.Sync
			}
		}
	}
	return nil
}

func newDecoder() *decoder {
	cfg := plugin.Config{
		Backoff: time.Second, MaxBackoff: 4 * time.Second, StableAfter: time.Minute, CrashLoopExits: 3, CrashLoopWithin: 10 * time.Second, CrashLoopRetry: time.Minute,
		Share: 500 * time.Millisecond,
	}
	return &decoder{m: plugin.New(cfg), w: newWatch(cfg, false), now: time.Unix(1_000_000, 0)}
}

// seeds are a life by hand and some by chance.
func seeds() [][]byte {
	const start, launched, up, synced, call, admitted, returned = 27, 14, 19, 21, 0, 4, 8
	out := [][]byte{
		{start, 0, launched, 16, up, 0, synced, 0, call, 255, admitted, 1, returned, 0, 17, 0, 28, 0, launched, 16, synced, 0, 27, 5, 17, 0},
		{start, 0, up, 1, launched, 0, call, 255, synced, 0, admitted, 1, 28, 0, 28, 0, 17, 0, start, 1, 27, 2, 27, 3, 16, 0},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		b := []byte{start, 0}
		for range 300 {
			b = append(b, byte(r.UintN(256)), byte(r.UintN(256)))
		}
		out = append(out, b)
	}
	return out
}

// No sequence of inputs, legal or not, breaks what does not depend on honest inputs: two incarnations in service, a second answer, two calls in the plugin, a call outside ready, a
// wait beyond the cap, an edge outside the table, a stopped plugin that comes back.
func FuzzStep(f *testing.F) {
	all := seeds()
	if len(all) == 0 {
		f.Fatal("no seeds")
	}
	phases := map[plugin.Phase]bool{}
	for _, s := range all {
		f.Add(s)
		d := newDecoder()
		for i := 0; i+1 < len(s); i += 2 {
			if err := d.run(s[i : i+2]); err != nil {
				break // reported by the target
			}
			phases[d.m.Phase()] = true
		}
	}
	for _, p := range plugin.Phases() {
		if !phases[p] {
			f.Errorf("no seed leads into phase %s", p)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := newDecoder().run(data); err != nil {
			t.Fatal(err)
		}
	})
}
