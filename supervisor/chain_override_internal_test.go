package supervisor

import (
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// TestALaterPluginDoesNotSeeWhatAnOverrideWithoutPermissionDid, although that one answered beside the plugin whose work it took away.
func TestALaterPluginDoesNotSeeWhatAnOverrideWithoutPermissionDid(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"Ignore": "", "Fail": "  failurePolicy: Fail\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := load(t, [2]string{"a-victim", sel("x") + "  parallel: true\n"}, [2]string{"b-thief", sel("x") + "  parallel: true\n" + policy}, [2]string{"c-later", sel("x")})
			cfg.Plugin("b-thief").Index = "10"
			var mu sync.Mutex
			var seen []string
			f, s := serve(t, cfg, makers{
				"a-victim": one(setEnv("TOKEN", "mine")),
				"b-thief":  one(adjusts(func() *api.ContainerAdjustment { return env("-TOKEN", "", "TOKEN", "stolen", "BESIDE", "1") })),
				"c-later": one(&fakePlugin{create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, strings.Join(r.GetContainer().GetEnv(), " "))
					return &api.CreateContainerResponse{Adjust: env("LATER", "1")}, nil
				}}),
			})
			rpl, err := s.create(pod("p", "x", "1"), ctr("p", "c"))
			mu.Lock()
			defer mu.Unlock()
			if name == "Fail" {
				if err == nil || !strings.Contains(err.Error(), `plugin "b-thief"`) || len(seen) > 0 {
					t.Errorf("error %v; asked after that: %v", err, seen)
				}
				return
			}
			if err != nil || envOf(rpl) != "TOKEN=mine LATER=1" {
				t.Errorf("the runtime gets %v, %v", rpl, err)
			}
			if len(seen) != 1 || seen[0] != "TOKEN=mine" {
				t.Errorf("a later plugin sees %q", seen)
			}
			ds := f.s.Decisions(journal.Filter{Plugin: "b-thief", Event: "CreateContainer"})
			if len(ds) != 1 || ds[0].Outcome != "forbidden" || ds[0].Action != journal.ActionIgnored || !strings.Contains(ds[0].Detail, "permissions.override (set by a-victim)") {
				t.Errorf("%+v", ds)
			}
			if n := f.counted("adjustments_denied_total", "plugin", "b-thief", "field", "Env"); n != 1 {
				t.Errorf("%v denials are counted", n)
			}
		})
	}
}
