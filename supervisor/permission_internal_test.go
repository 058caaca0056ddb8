package supervisor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"
)

// adjusts is a plugin that always replies with the adjustment, a fresh copy each time.
func adjusts(build func() *api.ContainerAdjustment) *fakePlugin {
	return &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return &api.CreateContainerResponse{Adjust: build()}, nil
	}}
}

// env is an adjustment of variables: pairs of key and value.
func env(pairs ...string) *api.ContainerAdjustment {
	a := &api.ContainerAdjustment{}
	for i := 0; i+1 < len(pairs); i += 2 {
		a.Env = append(a.Env, &api.KeyValue{Key: pairs[i], Value: pairs[i+1]})
	}
	return a
}

// envOf renders the variables of a reply, in order.
func envOf(rpl *api.CreateContainerResponse) string {
	var out []string
	for _, e := range rpl.GetAdjust().GetEnv() {
		out = append(out, e.GetKey()+"="+e.GetValue())
	}
	return strings.Join(out, " ")
}

// metric returns the values of the series of a metric whose labels have the given values, pairs of label and value.
func metric(t *testing.T, r *prometheus.Registry, name string, labels ...string) []float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []float64
	for _, f := range families {
		if f.GetName() != namespace+"_"+name {
			continue
		}
	series:
		for _, m := range f.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			for i := 0; i+1 < len(labels); i += 2 {
				if has[labels[i]] != labels[i+1] {
					continue series
				}
			}
			out = append(out, m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	return out
}

// counted returns the sum of the series of a counter.
func (f *fixture) counted(name string, labels ...string) (sum float64) {
	f.t.Helper()
	for _, v := range metric(f.t, f.s.opts.Registry, name, labels...) {
		sum += v
	}
	return sum
}

// TestOneForbiddenThingDropsTheWholeReplyAndTheRecordNamesPluginFieldAndRule: nothing is half-applied.
func TestOneForbiddenThingDropsTheWholeReplyAndTheRecordNamesPluginFieldAndRule(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"greedy", sel("x") + "  permissions: {env: {names: [GPU_*]}, rules: [{name: few, expression: 'reply.adjust.env.size() < 4'}]}\n"}, [2]string{"good", sel("x")}), makers{
		"greedy": one(&fakePlugin{create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			if r.GetContainer().GetId() == "many" {
				return &api.CreateContainerResponse{Adjust: env("GPU_1", "", "GPU_2", "", "GPU_3", "", "GPU_4", "")}, nil
			}
			return &api.CreateContainerResponse{Adjust: env("GPU_1", "secret", "LD_PRELOAD", "secret")}, nil
		}}),
		"good": one(setEnv("GOOD", "1")),
	})
	for id, want := range map[string]string{"one": "Env[LD_PRELOAD] by permissions.env.names", "many": "permissions.rules[few]"} {
		rpl, err := s.create(pod("p", "x", "1"), ctr("p", id))
		if err != nil {
			t.Fatal(err)
		}
		if got := envOf(rpl); got != "GOOD=1" || rpl.GetAdjust().GetAnnotations()[missedAnnotation] != "greedy=forbidden" {
			t.Errorf("%s: the runtime gets %v", id, rpl)
		}
		f.eventually("a record of "+want, func() bool {
			return len(f.events(func(e Event) bool {
				x, ok := e.(Forbidden)
				return ok && x.Plugin == "greedy" && x.Team == "t" && x.Container == "c-"+id && len(x.Denials) == 1 && x.Denials[0].String() == want
			})) == 1
		})
	}
	for field, want := range map[string]float64{"Env": 1, "rule": 1} {
		if n := f.counted("adjustments_denied_total", "plugin", "greedy", "field", field); n != want {
			t.Errorf("denied %s: %v", field, n)
		}
	}
}

// TestWithOverrideAPluginRemovesAndReplacesWhatAnotherHostedPluginSet in one stage as in two; without it see
// TestAPluginWithoutPermissionDoesNotRemoveWhatAnotherSet.
func TestWithOverrideAPluginRemovesAndReplacesWhatAnotherHostedPluginSet(t *testing.T) {
	t.Parallel()
	for name, parallel := range map[string]string{"one after the other": "", "in a parallel stage": "  parallel: true\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := load(t, [2]string{"a-first", sel("x") + parallel}, [2]string{"b-boss", sel("x") + parallel + "  permissions: {override: true}\n"}, [2]string{"c-thief", sel("x") + parallel})
			if parallel != "" {
				for _, p := range cfg.Plugins {
					p.Index = "10"
				}
			}
			f, s := serve(t, cfg, makers{
				"a-first": one(adjusts(func() *api.ContainerAdjustment { return env("A", "1", "B", "1") })),
				"b-boss":  one(adjusts(func() *api.ContainerAdjustment { return env("-A", "", "-B", "", "B", "2") })),
				// A was removed, so removing it again takes nothing from anybody; B belongs to b-boss now.
				"c-thief": one(&fakePlugin{create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
					if r.GetContainer().GetId() == "again" {
						return &api.CreateContainerResponse{Adjust: env("-A", "", "C", "3")}, nil
					}
					return &api.CreateContainerResponse{Adjust: env("-B", "", "B", "3")}, nil
				}}),
			})
			for id, want := range map[string]string{"steal": "-A= -B= B=2", "again": "-A= -B= B=2 C=3"} {
				rpl, err := s.create(pod("p", "x", "1"), ctr("p", id))
				if err != nil {
					t.Fatal(err)
				}
				got := strings.Split(envOf(rpl), " ")
				want := strings.Split(want, " ")
				// What a container has of its own is removed as well: the markers may be there.
				got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "-") })
				want = slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, "-") })
				if !slices.Equal(got, want) {
					t.Errorf("%s: the runtime gets %v, want %v", id, got, want)
				}
			}
			f.eventually("the record", func() bool {
				return len(f.events(func(e Event) bool {
					x, ok := e.(Forbidden)
					return ok && x.Plugin == "c-thief" && len(x.Denials) == 1 && x.Denials[0].String() == "Env[B] by permissions.override (set by b-boss)"
				})) == 1
			})
		})
	}
}

// TestNothingOfADroppedReplyRemains: what the loser of a conflict set is nobody's, so a later plugin needs no override to remove it; both names, teams and the field are told.
func TestNothingOfADroppedReplyRemains(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"a-winner", sel("x")}, [2]string{"b-loser", sel("x")}, [2]string{"c-remover", sel("x")}), makers{
		"a-winner": one(setEnv("X", "a")),
		"b-loser":  one(adjusts(func() *api.ContainerAdjustment { return env("X", "b", "Y", "b") })),
		"c-remover": one(&fakePlugin{create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			for _, e := range r.GetContainer().GetEnv() {
				if strings.HasPrefix(e, "Y=") {
					return nil, errors.New("the loser's variable is in the view")
				}
			}
			return &api.CreateContainerResponse{Adjust: env("-Y", "", "Z", "c")}, nil
		}}),
	})
	rpl, err := s.create(pod("p", "x", "1"), ctr("p", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if got := rpl.GetAdjust().GetAnnotations()[missedAnnotation]; got != "b-loser=conflict" {
		t.Errorf("missed: %q, and the runtime gets %v", got, rpl)
	}
	if got := envOf(rpl); !strings.Contains(got, "X=a") || !strings.Contains(got, "Z=c") || strings.Contains(got, "=b") {
		t.Errorf("the runtime gets %q", got)
	}
	f.eventually("the record", func() bool {
		return len(f.events(func(e Event) bool {
			x, ok := e.(Conflict)
			return ok && x.Plugin == "b-loser" && x.Team == "t" && slices.Equal(x.With, []string{"a-winner"}) && slices.Equal(x.WithTeams, []string{"t"}) && slices.Equal(x.Fields, []string{"Env[X]"})
		})) == 1
	})
	if n := f.counted("conflicts_total", "plugin", "b-loser", "team", "t", "with", "a-winner", "with_team", "t", "field", "Env"); n != 1 {
		t.Errorf("the metric says %v", n)
	}
}

// TestAConflictOfAPluginThatMayNotFailEndsTheCreationBeforeOthersAreAsked: its failurePolicy is Fail, so there is nothing to ask for any more.
func TestAConflictOfAPluginThatMayNotFailEndsTheCreationBeforeOthersAreAsked(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	_, s := serve(t, load(t, [2]string{"a-winner", sel("x")}, [2]string{"b-loser", sel("x") + "  failurePolicy: Fail\n"}, [2]string{"c-later", sel("x")}), makers{
		"a-winner": one(setEnv("X", "a")), "b-loser": one(setEnv("X", "b")),
		"c-later": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			asked <- struct{}{}
			return nil, nil
		}}),
	})
	_, err := s.create(pod("p", "x", "1"), ctr("p", "c"))
	if err == nil || !strings.Contains(err.Error(), `plugin "b-loser"`) || !strings.Contains(err.Error(), "a-winner") {
		t.Errorf("the error is %v", err)
	}
	select {
	case <-asked:
		t.Error("a later plugin was asked")
	default:
	}
}

// TestAnEvictionIsNotDoneAndSaidSo because NRI carries it to no runtime.
func TestAnEvictionIsNotDoneAndSaidSo(t *testing.T) {
	t.Parallel()
	evict := []*api.ContainerEviction{{ContainerId: "c", Reason: "no"}}
	f, s := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{
		create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return &api.CreateContainerResponse{Adjust: env("A", "1"), Evict: evict}, nil
		},
		update: func(*api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
			return &api.UpdateContainerResponse{Evict: evict}, nil
		},
	})})
	p, c := pod("p", "x", "1"), ctr("p", "c")
	rpl, err := s.create(p, c)
	if err != nil || envOf(rpl) != "A=1" || len(rpl.GetEvict()) > 0 {
		t.Errorf("the runtime gets %v, %v", rpl, err)
	}
	upd, err := s.plugin.UpdateContainer(s.ctx(), &api.UpdateContainerRequest{Pod: p, Container: c})
	if err != nil || len(upd.GetEvict()) > 0 {
		t.Errorf("the runtime gets %v, %v", upd, err)
	}
	f.eventually("both told", func() bool {
		return len(f.events(func(e Event) bool {
			x, ok := e.(UpdateDenied)
			return ok && x.Plugin == "p" && x.ContainerID == "c" && strings.Contains(x.Why, "eviction")
		})) == 2
	})
	if n := f.counted("container_updates_total", "plugin", "p", "source", "reply", "result", "unsupported"); n != 2 {
		t.Errorf("counted %v", n)
	}
}
