package supervisor

import (
	"fmt"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// TestATeamsLaneShareBoundsAllItsPluginsTogether whatever their manifests say, from the next reload on, and no other team's.
func TestATeamsLaneShareBoundsAllItsPluginsTogether(t *testing.T) {
	t.Parallel()
	const teams = "  teams: {t: {contact: \"#t\"%s}, u: {contact: \"#u\"}}\n"
	cfg := loadWith(t, fmt.Sprintf(teams, ", laneShare: {ratio: 0.000001, burst: 5m}"), [2]string{"slow", sel("slow")}, [2]string{"quick", sel("quick")}, [2]string{"other", sel("quick")})
	cfg.Plugin("other").Team = "u"
	f, s := serve(t, cfg, makers{"slow": one(&fakePlugin{}), "quick": one(setEnv("Q", "1")), "other": one(setEnv("O", "1"))})
	created := 0
	create := func(label string) string {
		t.Helper()
		created++
		id := fmt.Sprint(label, created)
		rpl, err := s.create(pod(id, label, "1"), ctr(id, "c-"+id))
		if err != nil {
			t.Fatal(err)
		}
		return envOf(rpl)
	}
	if got := create("quick"); got != "Q=1 O=1" {
		t.Errorf("before: %s", got)
	}
	f.s.plan().byName["slow"].guard.Charge(time.Hour)
	if got := create("quick"); got != "O=1" {
		t.Errorf("after: %s", got)
	}
	if n := f.counted("plugin_calls_refused_total", "plugin", "quick", "reason", breaker.ReasonLaneShare.String()); n != 1 {
		t.Errorf("%v calls are refused", n)
	}
	f.s.lanes.apply(loadWith(t, fmt.Sprintf(teams, ""), [2]string{"slow", sel("slow")}), f.s.plan().hosts)
	if got := create("quick"); got != "Q=1 O=1" {
		t.Errorf("without a share: %s", got)
	}
}
