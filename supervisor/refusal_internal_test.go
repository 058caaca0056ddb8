package supervisor

import (
	"errors"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// TestAStockPluginRefusesWithAnyErrorAndOneOfTheSDKWithTheTypedOne, both only with permissions.reject; without it an error is a failure.
func TestAStockPluginRefusesWithAnyErrorAndOneOfTheSDKWithTheTypedOne(t *testing.T) {
	t.Parallel()
	typed, plain := error(&wire.RejectError{Reason: "no room"}), errors.New("no room")
	for name, tt := range map[string]struct {
		protocol, permissions string
		err                   error
		refused               bool
		outcome               string
	}{
		"stock, an error":               {"nri", "{reject: true}", plain, true, "rejected"},
		"stock, without permission":     {"nri", "{}", plain, false, "error"},
		"SDK, the typed error":          {"go-plugin", "{reject: true}", typed, true, "rejected"},
		"SDK, an error":                 {"go-plugin", "{reject: true}", plain, false, "error"},
		"SDK, without permission":       {"go-plugin", "{}", typed, false, "error"},
		"stock, the words of a typed":   {"nri", "{reject: true}", typed, true, "rejected"},
		"stock, typed, not permitted":   {"nri", "{}", typed, false, "error"},
		"SDK, an error, not permitted":  {"go-plugin", "{}", plain, false, "error"},
		"stock, nothing":                {"nri", "{reject: true}", nil, false, ""},
		"SDK, nothing, with permission": {"go-plugin", "{reject: true}", nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := load(t, [2]string{"p", sel("x") + "  permissions: " + tt.permissions + "\n"})
			cfg.Plugin("p").Spec.Exec.Protocol = policy.Protocol(tt.protocol)
			f, s := serve(t, cfg, makers{"p": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) { return nil, tt.err }})})
			rpl, err := s.create(pod("p", "x", "1"), ctr("p", "c"))
			if (err != nil) != tt.refused || tt.refused && !strings.Contains(err.Error(), `plugin "p" of team "t" (contact: #t) refuses this container: no room`) {
				t.Errorf("the runtime gets the error %v", err)
			}
			if tt.outcome == "" {
				return
			}
			if n := f.counted("plugin_calls_total", "plugin", "p", "event", "CreateContainer", "outcome", tt.outcome); n != 1 {
				t.Errorf("counted %v times as %s", n, tt.outcome)
			}
			if missed := rpl.GetAdjust().GetAnnotations()[missedAnnotation]; (missed == "p=error") != (tt.outcome == "error") {
				t.Errorf("missed: %q", missed)
			}
		})
	}
}
