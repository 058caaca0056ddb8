package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/doctor"
)

func TestWhatIsOutOfServiceOrRefusedIsFound(t *testing.T) {
	t.Parallel()
	each(t, []finds{
		{
			"a required plugin that is not there", func(n *node) { n.config += "requiredPlugins: [gpu-evn]\n" },
			doctor.Finding{Check: doctor.Required, Result: doctor.Problem, What: `no plugin is named "gpu-evn"`, Where: "config.yaml:5", Value: "spec.requiredPlugins[0]", Mend: "correct the name"},
			1,
		},
		{
			"a required plugin that does not select everything", func(n *node) {
				n.config += "requiredPlugins: [gpu-env]\n"
				n.plugins = strings.Replace(n.plugins, "selector: {}", "selector: {namespaces: {include: [x]}}", 1)
			},
			doctor.Finding{Check: doctor.Required, Result: doctor.Problem, What: "does not select all of them", Where: "plugins.yaml:2", Value: "spec.selector", Mend: "selector: {}"},
			1,
		},
		{
			"a required plugin that is disabled", func(n *node) {
				n.config += "requiredPlugins: [gpu-env]\n"
				n.live.Disabled = []string{"gpu-env"}
			},
			doctor.Finding{Check: doctor.Required, Result: doctor.Problem, What: "gpu-env is disabled", Where: "/etc/config.yaml", Value: "spec.requiredPlugins", Mend: "plugin enable gpu-env"},
			1,
		},
		{
			"a required plugin that is not in service", func(n *node) {
				n.config += "requiredPlugins: [gpu-env]\n"
				n.live.Out = []doctor.Outage{{Plugin: "gpu-env", State: "crash_loop", FailsClosed: true}}
			},
			doctor.Finding{Check: doctor.Required, Result: doctor.Problem, What: "gpu-env is not in service (crash_loop)", Where: "/etc/config.yaml", Value: "spec.requiredPlugins", Mend: "plugin show gpu-env"},
			1,
		},
		{
			"a plugin that fails closed and is not in service", func(n *node) {
				n.live.Out = []doctor.Outage{{Plugin: "gpu-env", State: "backoff", FailsClosed: true}, {Plugin: "netpol", State: "backoff"}}
			},
			doctor.Finding{Check: doctor.Service, Result: doctor.Problem, What: "1 plugin is not in service, and containers are refused meanwhile: gpu-env (backoff)", Where: "/run/", Mend: "status says why"},
			1,
		},
		{
			"a plugin that annotations require and that is not in service", func(n *node) {
				n.live.Out = []doctor.Outage{{Plugin: "gpu-env", State: "backoff"}}
				n.live.Refusals = []doctor.Refusal{{Plugin: "gpu-env", Reason: "not_ready", Count: 2, Ago: time.Minute}}
			},
			doctor.Finding{Check: doctor.Service, Result: doctor.Problem, What: "containers are refused meanwhile: gpu-env (backoff)", Where: "/run/", Mend: "status says why"},
			1,
		},
		{
			"a plugin that annotations require and that is not hosted", func(n *node) { n.live.Refusals = []doctor.Refusal{{Reason: "required", Count: 12, Ago: time.Minute}} },
			doctor.Finding{Check: doctor.Annotations, Result: doctor.Warning, What: "a plugin which is not hosted, the last 1m0s ago", Where: "/run/", Value: "required 12", Mend: "events --action failed names"},
			0,
		},
		{
			"a plugin that annotations require and that selects others", func(n *node) {
				n.live.Refusals = []doctor.Refusal{{Plugin: "gpu-env", Reason: "required", Count: 12, Ago: time.Minute}}
			},
			doctor.Finding{Check: doctor.Annotations, Result: doctor.Warning, What: "require plugin gpu-env, which has no part in them", Where: "/run/", Value: "required 12", Mend: "correct its selector"},
			0,
		},
		{
			"a plugin that the configuration requires and that has no part in containers", func(n *node) {
				n.config += "requiredPlugins: [gpu-env]\n"
				n.live.Refusals = []doctor.Refusal{{Plugin: "gpu-env", Reason: "required", Count: 12, Ago: time.Minute}}
			},
			doctor.Finding{Check: doctor.Required, Result: doctor.Problem, What: "require plugin gpu-env, which has no part in them", Where: "/run/", Value: "required 12", Mend: "correct its selector"},
			1,
		},
		{
			"a plugin in service for whose sake containers were refused", func(n *node) {
				n.live.Refusals = []doctor.Refusal{{Plugin: "gpu-env", Reason: "timeout", Count: 12, Ago: time.Minute}}
			},
			doctor.Finding{Check: doctor.Service, Result: doctor.Warning, What: "gpu-env is in service, and containers were refused", Where: "/run/", Value: "timeout 12", Mend: "events --action failed --plugin gpu-env"},
			0,
		},
		{
			"a plugin that is not in service during a bypass", func(n *node) {
				n.live.Bypass, n.live.Out = true, []doctor.Outage{{Plugin: "gpu-env", State: "backoff", FailsClosed: true}}
			},
			doctor.Finding{Check: doctor.Service, Result: doctor.Warning, What: "a bypass is on", Mend: "bypass --off"},
			0,
		},
		{
			"plugins that are not in service", func(n *node) { n.live.Out = []doctor.Outage{{Plugin: "gpu-env"}, {Plugin: "netpol"}} },
			doctor.Finding{Check: doctor.Service, Result: doctor.Warning, What: "2 plugins are not in service: gpu-env, netpol", Mend: "nri-supervisor status says why, and whom to ask"},
			0,
		},
	})
}
