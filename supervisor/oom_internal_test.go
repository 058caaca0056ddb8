package supervisor

import "testing"

func TestAChildThatTheKernelKilledForWantOfMemoryIsCountedAndToldWithItsPlugin(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"a", sel("a")}, [2]string{"b", sel("b")})
	f, _ := serveFiles(t, fs, makers{"a": one(setEnv("a", "1")), "b": one(setEnv("b", "1"))})
	inc := f.l.inc("a")
	inc.h.OutOfMemory(2)
	inc.h.OutOfMemory(1)
	counted := map[string]float64{}
	families, err := f.s.opts.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, fam := range families {
		if fam.GetName() != "nri_supervisor_plugin_oom_kills_total" {
			continue
		}
		for _, m := range fam.GetMetric() {
			counted[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	if counted["a"] != 3 || counted["b"] != 0 || len(counted) != 2 {
		t.Errorf("counted %v, want 3 of a and 0 of b", counted)
	}
	f.eventually("two events with the plugin's name and process", func() bool {
		return len(f.events(func(e Event) bool {
			o, ok := e.(ChildrenOutOfMemory)
			return ok && o.Plugin == "a" && o.Team == "t" && o.PID == inc.pid && o.Killed > 0
		})) == 2
	})
	if f.pid("a") != inc.pid {
		t.Error("the plugin did not go on")
	}
}
