package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// alwaysBlocking are the events whose reply the runtime needs, so that no plugin can have them queued.
func alwaysBlocking() []api.Event {
	return []api.Event{
		api.Event_CREATE_CONTAINER, api.Event_UPDATE_CONTAINER, api.Event_STOP_CONTAINER,
		api.Event_VALIDATE_CONTAINER_ADJUSTMENT,
	}
}

// blockingByDefault are the events for which the runtime waits unless delivery says otherwise.
func blockingByDefault() []api.Event {
	return append(alwaysBlocking(), api.Event_RUN_POD_SANDBOX, api.Event_UPDATE_POD_SANDBOX,
		api.Event_START_CONTAINER, api.Event_STOP_POD_SANDBOX)
}

// canFail says whether failurePolicy Fail can act at the event. What ends a container must go on, and
// what has happened cannot be refused.
func canFail(e api.Event) bool {
	return slices.Contains([]api.Event{
		api.Event_RUN_POD_SANDBOX, api.Event_UPDATE_POD_SANDBOX, api.Event_CREATE_CONTAINER,
		api.Event_START_CONTAINER, api.Event_UPDATE_CONTAINER, api.Event_VALIDATE_CONTAINER_ADJUSTMENT,
	}, e)
}

// validateValues checks what can be said of a spec by itself, complete or not.
func (d *document) validateValues(path string, s *PluginSpec) {
	at := func(field string) string { return path + "." + field }
	atMost := func(low, high string, lowValue, highValue Duration) {
		if lowValue > highValue && !d.failedUnder(at(low)) && !d.failedUnder(at(high)) {
			field := high
			if !d.isWritten(at(high)) {
				field = low
			}
			d.errorf(at(field), fmt.Sprintf("write %s: %s or more", high[strings.LastIndexByte(high, '.')+1:], lowValue),
				"%s is %s, less than %s, which is %s", high, highValue, low, lowValue)
		}
	}
	atMost("breaker.openDuration", "breaker.maxOpenDuration", s.Breaker.OpenDuration, s.Breaker.MaxOpenDuration)
	atMost("restart.backoff", "restart.maxBackoff", s.Restart.Backoff, s.Restart.MaxBackoff)
	if longest := s.Timeouts.longest(); s.OverdueAfter > 0 && s.OverdueAfter < longest && !d.failedUnder(at("timeouts")) {
		d.errorf(at("overdueAfter"), "write "+longest.String()+" or more", "%s is less than the longest timeout, %s, so a call would be a hang before it is late", s.OverdueAfter, longest)
	}
	for i, e := range s.FailurePolicyEvents {
		if field := indexPath(at("failurePolicyEvents"), i); e != "" && !d.failedUnder(field) && !canFail(e.Event()) {
			d.errorf(field, "delete it", "Fail never acts at %s: Stop*, Remove* and Post* events are always Ignore", e)
		}
	}
	for _, e := range EventNames() {
		if s.Delivery[e] == Async && slices.Contains(alwaysBlocking(), e.Event()) {
			d.errorf(childPath(at("delivery"), string(e)), "delete the line", "the runtime needs the reply to %s, so it cannot be async", e)
		}
	}
	if s.Exec != nil {
		d.validateExec(at("exec"), s.Exec)
	}
	if s.Attach != nil && s.Attach.Socket != "" {
		d.checkSocket(at("attach.socket"), s.Attach.Socket)
	}
	if s.ConfigFrom != nil {
		d.checkAbsolute(at("configFrom.file"), s.ConfigFrom.File)
	}
}

// isWritten says whether the field was written, in the document or in the defaults.
func (d *document) isWritten(path string) bool {
	_, ok := d.places[path]
	return ok
}

// validateExec checks the command line and the environment.
func (d *document) validateExec(path string, e *ExecSpec) {
	if e.Path != "" {
		d.checkAbsolute(path+".path", e.Path)
	}
	if e.SHA256 != "" && !d.failedUnder(path+".sha256") && !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(e.SHA256) {
		d.errorf(path+".sha256", "write the output of sha256sum: 64 hexadecimal digits in lower case", "%q is not a SHA-256", e.SHA256)
	}
	seen := make(map[string]int, len(e.Env))
	for i, v := range e.Env {
		at := indexPath(path+".env", i)
		name := at + ".name"
		switch first, dup := seen[v.Name]; {
		case d.failedUnder(name):
		case v.Name == "":
			d.errorf(name, "write name: NAME", "the variable has no name")
		case !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`).MatchString(v.Name):
			d.errorf(name, "use letters, digits and underscores, with no digit first", "%q is not the name of a variable", v.Name)
		case reservedEnv(v.Name):
			d.errorf(name, "choose another name", "%s is set by the supervisor", v.Name)
		case dup:
			d.errorf(name, "keep one of them", "the variable %s is set twice, first in line %d", v.Name, first)
		default:
			seen[v.Name] = d.at(name).line
		}
		d.validateEnvSource(at, v)
	}
}

// reservedEnv says whether the name belongs to NRI, the supervisor, or go-plugin.
func reservedEnv(name string) bool {
	for _, prefix := range []string{"NRI_PLUGIN_", "NRI_SUPERVISOR_", "PLUGIN_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func (d *document) validateEnvSource(path string, v EnvVar) {
	if v.ValueFrom == nil || d.failedUnder(path) {
		return
	}
	from := path + ".valueFrom"
	switch {
	case d.isWritten(path + ".value"):
		d.errorf(from, "keep one of them", "value and valueFrom are both given")
	case v.ValueFrom.FileRef == "" && v.ValueFrom.FieldRef == "":
		d.errorf(from, "write fileRef: PATH or fieldRef: nodeName", "the source is missing")
	case v.ValueFrom.FileRef != "" && v.ValueFrom.FieldRef != "":
		d.errorf(from, "keep one of them", "fileRef and fieldRef are both given")
	case v.ValueFrom.FileRef != "":
		d.checkAbsolute(from+".fileRef", v.ValueFrom.FileRef)
	}
}

// perEvent returns the timeout of the event's own; 0 when it has none.
func (t *TimeoutsSpec) perEvent(e api.Event) *Duration {
	switch e {
	case api.Event_RUN_POD_SANDBOX:
		return &t.RunPodSandbox
	case api.Event_UPDATE_POD_SANDBOX:
		return &t.UpdatePodSandbox
	case api.Event_POST_UPDATE_POD_SANDBOX:
		return &t.PostUpdatePodSandbox
	case api.Event_STOP_POD_SANDBOX:
		return &t.StopPodSandbox
	case api.Event_REMOVE_POD_SANDBOX:
		return &t.RemovePodSandbox
	case api.Event_CREATE_CONTAINER:
		return &t.CreateContainer
	case api.Event_POST_CREATE_CONTAINER:
		return &t.PostCreateContainer
	case api.Event_START_CONTAINER:
		return &t.StartContainer
	case api.Event_POST_START_CONTAINER:
		return &t.PostStartContainer
	case api.Event_UPDATE_CONTAINER:
		return &t.UpdateContainer
	case api.Event_POST_UPDATE_CONTAINER:
		return &t.PostUpdateContainer
	case api.Event_STOP_CONTAINER:
		return &t.StopContainer
	case api.Event_REMOVE_CONTAINER:
		return &t.RemoveContainer
	case api.Event_VALIDATE_CONTAINER_ADJUSTMENT:
		return &t.ValidateContainerAdjustment
	case api.Event_UNKNOWN, api.Event_LAST:
		return &t.Default
	default:
		return &t.Default
	}
}

// longest is the longest timeout of any event.
func (t *TimeoutsSpec) longest() Duration {
	out := t.Default
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		out = max(out, *t.perEvent(e))
	}
	return out
}

// of is the timeout that holds for the event.
func (t *TimeoutsSpec) of(e api.Event) time.Duration {
	if own := *t.perEvent(e); own > 0 {
		return own.Std()
	}
	return t.Default.Std()
}
