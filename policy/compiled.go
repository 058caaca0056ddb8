package policy

import (
	"time"

	"github.com/containerd/nri/pkg/api"
)

// compiled is what a manifest compiles to.
type compiled struct {
	selectors
	// events is the narrowing of the subscription, 0 for none; blocking and fails are sets of events.
	events, blocking, fails api.EventMask
	// timeouts is indexed by event.
	timeouts [api.Event_LAST]time.Duration
	// execPaths are the team's; nil: every path.
	execPaths  []pathGlob
	granted    fieldSet
	values     valueRules
	rules      []condition
	configData string
	// document is the manifest itself; goodData is what the configuration was when a last good manifest was good.
	document string
	goodData *string
	// hosted is GoodManifest.Hosted.
	hosted     bool
	critical   globs
	staticPods bool
	// statesFailurePolicy says that failurePolicy was written.
	statesFailurePolicy bool
}
