package chaosplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/nri/pkg/api"
)

// Dump is what the plugin writes down when asked. Lists are sorted.
type Dump struct {
	// Name is the configured name, PID the process that wrote this, Dumps how many it wrote, this one included.
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Dumps int    `json:"dumps"`
	// Configured and Synchronized count those calls.
	Configured   int `json:"configured"`
	Synchronized int `json:"synchronized"`
	// Pods and Containers are the ids that exist as far as the plugin was told.
	Pods       []string `json:"pods"`
	Containers []string `json:"containers"`
	// Snapshot are the ids of the containers in the last Synchronize.
	Snapshot []string `json:"snapshot"`
	// Events counts the events per id of a container, or of a pod for events without one, then by name of the event.
	Events map[string]map[string]int `json:"events"`
}

// record is what the plugin was told. It needs a lock around it.
type record struct {
	dumps, configured, synchronized int
	pods, containers                map[string]bool
	snapshot                        []string
	events                          map[string]map[string]int
}

func newRecord() record {
	return record{pods: map[string]bool{}, containers: map[string]bool{}, events: map[string]map[string]int{}}
}

// event counts an event and follows creations and removals.
func (r *record) event(name string, pod *api.PodSandbox, c *api.Container) {
	id := pod.GetId()
	if c != nil {
		id = c.GetId()
	}
	if r.events[id] == nil {
		r.events[id] = map[string]int{}
	}
	r.events[id][name]++
	switch name {
	case "RunPodSandbox":
		r.pods[id] = true
	case "RemovePodSandbox":
		delete(r.pods, id)
	case "CreateContainer":
		r.containers[id] = true
	case "RemoveContainer":
		delete(r.containers, id)
	}
}

// synchronize replaces what is known.
func (r *record) synchronize(pods []*api.PodSandbox, ctrs []*api.Container) {
	r.synchronized++
	r.pods, r.containers, r.snapshot = map[string]bool{}, map[string]bool{}, nil
	for _, p := range pods {
		r.pods[p.GetId()] = true
	}
	for _, c := range ctrs {
		r.containers[c.GetId()] = true
		r.snapshot = append(r.snapshot, c.GetId())
	}
	slices.Sort(r.snapshot)
}

// dump writes the record to file, replacing it in one step.
func (r *record) dump(name, file string) error {
	if file == "" {
		return errors.New(`write dump: no file: set "dump" in the configuration`)
	}
	r.dumps++
	data, err := json.MarshalIndent(Dump{
		Name: name, PID: os.Getpid(), Dumps: r.dumps, Configured: r.configured, Synchronized: r.synchronized,
		Pods: slices.Sorted(maps.Keys(r.pods)), Containers: slices.Sorted(maps.Keys(r.containers)),
		Snapshot: r.snapshot, Events: r.events,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("write dump: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".chaos-dump-")
	if err != nil {
		return fmt.Errorf("write dump: %w", err)
	}
	_, err = tmp.Write(append(data, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write dump: %w", err), os.Remove(tmp.Name()))
	}
	return nil
}
