package supervisor

import (
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestAManifestIsInvalidSinceTheConfigurationInWhichItBecameSo(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	at := func(before *plan, minutes int, names ...string) *plan {
		cfg := &policy.Config{}
		for _, n := range names {
			cfg.Invalid = append(cfg.Invalid, policy.InvalidPlugin{Name: n, File: n + ".yaml"})
		}
		p := newPlan(1, cfg, nil)
		p.brokenSince(before, begin.Add(time.Duration(minutes)*time.Minute))
		return p
	}
	p := at(at(at(at(nil, 0, "a"), 10, "a", "b"), 20, "b"), 30, "a", "b")
	for i, want := range []int{30, 10} { // a was mended in between
		if got := p.broken[brokenKey(p.config.Invalid[i])]; !got.Equal(begin.Add(time.Duration(want) * time.Minute)) {
			t.Errorf("%s is invalid since %s, want minute %d", p.config.Invalid[i].Name, got, want)
		}
	}
}
