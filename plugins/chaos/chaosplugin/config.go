package chaosplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// AnnotationPrefix is before the name of an event in the annotation by which a pod asks for a fault.
const AnnotationPrefix = "chaos.nri-supervisor.dev/"

// Config is the plugin's configuration.
type Config struct {
	// Name is the value of the variable CHAOS on each container. Default "chaos".
	Name string `json:"name"`
	// Dump is the file that the record is written to on SIGUSR1 and by the action dump; empty: none.
	Dump string `json:"dump"`
	// Validate makes the plugin a validator: it subscribes to ValidateContainerAdjustment, too.
	Validate bool `json:"validate"`
	// Faults are tried in order; the first that applies acts. An annotation of the pod comes before all of them.
	Faults []Fault `json:"faults"`
}

// Fault is what to do at which event.
type Fault struct {
	// Event is an NRI event, or Configure, Synchronize, Shutdown or Health. Required.
	Event string `json:"event"`
	// Action is what to do: see the documentation of the command. Required.
	Action string `json:"action"`
	// Namespace, PodLabel and Annotation (KEY=VALUE) narrow the fault to pods that have all of those given.
	Namespace  string `json:"namespace"`
	PodLabel   string `json:"podLabel"`
	Annotation string `json:"annotation"`
	// WhileFile makes the fault apply only while that file exists.
	WhileFile string `json:"whileFile"`
	// Times is how often the fault acts in one life of the process; 0 means always.
	Times int `json:"times"`
}

// otherEvents can be failed but are no events of NRI's.
func otherEvents() []string { return []string{"Configure", "Synchronize", "Shutdown", "Health"} }

// ParseConfig reads a configuration from JSON. Unknown fields, events and actions are an error.
func ParseConfig(text string) (Config, error) {
	c := Config{Name: "chaos"}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	for i, f := range c.Faults {
		if err := f.check(); err != nil {
			return Config{}, fmt.Errorf("read config: faults[%d]: %w", i, err)
		}
	}
	return c, nil
}

func (f Fault) check() error {
	if !slices.Contains(otherEvents(), f.Event) {
		mask, err := api.ParseEventMask(f.Event)
		if err != nil || mask.PrettyString() != f.Event {
			return fmt.Errorf("event %q is unknown", f.Event)
		}
	}
	_, err := parseAction(f.Action)
	return err
}

// applies tells whether the fault is meant for the pod, which is nil for events without one.
func (f Fault) applies(pod *api.PodSandbox) bool {
	if f.Namespace != "" && pod.GetNamespace() != f.Namespace {
		return false
	}
	if !has(pod.GetLabels(), f.PodLabel) || !has(pod.GetAnnotations(), f.Annotation) {
		return false
	}
	return f.WhileFile == "" || exists(f.WhileFile)
}

// has tells whether the map has KEY=VALUE; an empty one always holds.
func has(m map[string]string, keyValue string) bool {
	if keyValue == "" {
		return true
	}
	key, value, _ := strings.Cut(keyValue, "=")
	got, ok := m[key]
	return ok && got == value
}

func exists(file string) bool {
	_, err := os.Stat(file) //nolint:gosec // the operator names the file
	return err == nil
}
