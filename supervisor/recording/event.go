package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// MaxSize is the most bytes of an encoded event that are read: NRI's messages are below 4 MiB, and JSON takes a few times as much.
const MaxSize = 64 << 20

// Event is one event of the runtime.
type Event struct {
	// Name is NRI's name of the event, such as CreateContainer.
	Name string
	// Time is when it came.
	Time time.Time
	// Redacted says that values were taken out.
	Redacted bool
	// Pod is what the event is about, or the pod of it; nil for Synchronize.
	Pod *api.PodSandbox
	// Container is nil for a pod's event.
	Container *api.Container
	// Resources are those of UpdateContainer and UpdatePodSandbox, Overhead those of UpdatePodSandbox.
	Resources, Overhead *api.LinuxResources
	// Pods and Containers are the state that Synchronize tells.
	Pods       []*api.PodSandbox
	Containers []*api.Container
}

// wire is the event in a file.
type wire struct {
	Event      string            `json:"event"`
	Time       time.Time         `json:"time,omitzero"`
	Redacted   bool              `json:"redacted,omitempty"`
	Pod        json.RawMessage   `json:"pod,omitempty"`
	Container  json.RawMessage   `json:"container,omitempty"`
	Resources  json.RawMessage   `json:"resources,omitempty"`
	Overhead   json.RawMessage   `json:"overhead,omitempty"`
	Pods       []json.RawMessage `json:"pods,omitempty"`
	Containers []json.RawMessage `json:"containers,omitempty"`
}

// Encode returns the event in one line, without the end of it.
func (e *Event) Encode() ([]byte, error) {
	w := wire{Event: e.Name, Time: e.Time, Redacted: e.Redacted}
	var errs []error
	put := func(m proto.Message, set bool) json.RawMessage {
		if !set {
			return nil
		}
		data, err := protojson.Marshal(m)
		errs = append(errs, err)
		return data
	}
	w.Pod, w.Container = put(e.Pod, e.Pod != nil), put(e.Container, e.Container != nil)
	w.Resources, w.Overhead = put(e.Resources, e.Resources != nil), put(e.Overhead, e.Overhead != nil)
	for _, p := range e.Pods {
		w.Pods = append(w.Pods, put(p, true))
	}
	for _, c := range e.Containers {
		w.Containers = append(w.Containers, put(c, true))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("encode the event %s: %w", e.Name, err)
	}
	return json.Marshal(w)
}

// Decode reads an event. What a newer NRI than ours can say is left out.
func Decode(data []byte) (*Event, error) {
	var w wire
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	if dec.More() {
		return nil, errors.New("read the event: there is more than one; write one a file")
	}
	if _, ok := Known(w.Event); !ok && w.Event != "Synchronize" {
		return nil, fmt.Errorf("read the event: %q is not an event of NRI; write, for example, CreateContainer", w.Event)
	}
	e := &Event{Name: w.Event, Time: w.Time, Redacted: w.Redacted}
	var errs []error
	get := func(what string, raw json.RawMessage, m proto.Message) {
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, m); err != nil {
			errs = append(errs, fmt.Errorf("read the event: %s: %w", what, err))
		}
	}
	if w.Pod != nil {
		e.Pod = &api.PodSandbox{}
		get("pod", w.Pod, e.Pod)
	}
	if w.Container != nil {
		e.Container = &api.Container{}
		get("container", w.Container, e.Container)
	}
	if w.Resources != nil {
		e.Resources = &api.LinuxResources{}
		get("resources", w.Resources, e.Resources)
	}
	if w.Overhead != nil {
		e.Overhead = &api.LinuxResources{}
		get("overhead", w.Overhead, e.Overhead)
	}
	for i, raw := range w.Pods {
		e.Pods = append(e.Pods, &api.PodSandbox{})
		get(fmt.Sprintf("pods[%d]", i), raw, e.Pods[i])
	}
	for i, raw := range w.Containers {
		e.Containers = append(e.Containers, &api.Container{})
		get(fmt.Sprintf("containers[%d]", i), raw, e.Containers[i])
	}
	if e.Pod == nil && e.Name != "Synchronize" {
		errs = append(errs, errors.New("read the event: pod is missing"))
	}
	return e, errors.Join(errs...)
}

// Known returns NRI's number of an event.
func Known(name string) (api.Event, bool) {
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		if e.PrettyName() == name {
			return e, true
		}
	}
	return 0, false
}
