// Command stock is an NRI plugin written against nothing but NRI's stub, as most plugins are; it is built once with each version of NRI that it is tested with.
//
// Its configuration is JSON:
//
//	{
//	  "env": {"A": "1"},                                 // set on each container that it is called for
//	  "remove": ["B"],                                   // variables that are removed, also those of other plugins
//	  "mount": {"source": "/x", "destination": "/y"},    // a bind mount, read-only
//	  "device": {"path": "/dev/x", "type": "c", "major": 1, "minor": 3},
//	  "rlimit": {"type": "RLIMIT_NOFILE", "limit": 512},
//	  "hook": "/path",                                   // runs as a poststart hook
//	  "memory": 33554432,                                // what the limit becomes when somebody updates a container
//	  "afterStart": 50331648,                            // the limit that an update asked for by the plugin itself sets, once a container has started
//	  "fault": "hang",                                   // in CreateContainer: hang, exit, error, or slow:DURATION
//	  "record": "/path"                                  // each event is appended to this file, one JSON object a line
//	}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type config struct {
	Env    map[string]string
	Remove []string
	Mount  *struct{ Source, Destination string }
	Device *struct {
		Path, Type   string
		Major, Minor int64
	}
	Rlimit *struct {
		Type  string
		Limit uint64
	}
	Hook       string
	Memory     int64
	AfterStart int64
	Fault      string
	Record     string
}

type plugin struct {
	stub   stub.Stub
	config config
}

func main() {
	p := &plugin{}
	s, err := stub.New(p)
	if err == nil {
		p.stub = s
		err = s.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
}

// record appends one event. O_APPEND keeps lines of several writers whole.
func (p *plugin) record(event string, pod *api.PodSandbox, ctr *api.Container) {
	if p.config.Record == "" {
		return
	}
	line, _ := json.Marshal(map[string]any{"event": event, "pod": pod.GetId(), "podName": pod.GetName(), "id": ctr.GetId(), "pid": os.Getpid()})
	f, err := os.OpenFile(p.config.Record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		return
	}
	defer func() { _ = f.Close() }()
	_, _ = f.Write(append(line, '\n'))
}

// Configure takes the configuration; the mask is left to the stub.
func (p *plugin) Configure(_ context.Context, text, _, _ string) (api.EventMask, error) {
	if text == "" {
		return 0, nil
	}
	return 0, json.Unmarshal([]byte(text), &p.config)
}

// Synchronize records each pod and container that is there.
func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	p.record("Synchronize", nil, nil)
	names := map[string]*api.PodSandbox{}
	for _, pod := range pods {
		names[pod.GetId()] = pod
		p.record("SyncPod", pod, nil)
	}
	for _, c := range ctrs {
		p.record("SyncContainer", names[c.GetPodSandboxId()], c)
	}
	return nil, nil
}

// RunPodSandbox records.
func (p *plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.record("RunPodSandbox", pod, nil)
	return nil
}

// StopPodSandbox records.
func (p *plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.record("StopPodSandbox", pod, nil)
	return nil
}

// RemovePodSandbox records.
func (p *plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.record("RemovePodSandbox", pod, nil)
	return nil
}

// CreateContainer adjusts, or fails as it was told to.
func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, ctr *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.record("CreateContainer", pod, ctr)
	switch fault := p.config.Fault; {
	case fault == "hang":
		select {}
	case fault == "exit":
		os.Exit(3)
	case fault == "error":
		return nil, nil, errors.New("told to fail")
	case strings.HasPrefix(fault, "slow:"):
		d, err := time.ParseDuration(strings.TrimPrefix(fault, "slow:"))
		if err != nil {
			return nil, nil, err
		}
		time.Sleep(d)
	}
	a := &api.ContainerAdjustment{}
	for _, key := range p.config.Remove {
		a.RemoveEnv(key)
	}
	for key, value := range p.config.Env {
		a.AddEnv(key, value)
	}
	if m := p.config.Mount; m != nil {
		a.AddMount(&api.Mount{Source: m.Source, Destination: m.Destination, Type: "bind", Options: []string{"bind", "ro"}})
	}
	if d := p.config.Device; d != nil {
		a.AddDevice(&api.LinuxDevice{Path: d.Path, Type: d.Type, Major: d.Major, Minor: d.Minor, FileMode: api.FileMode(os.FileMode(0o666))})
	}
	if l := p.config.Rlimit; l != nil {
		a.AddRlimit(l.Type, l.Limit, l.Limit)
	}
	if p.config.Hook != "" {
		a.AddHooks(&api.Hooks{Poststart: []*api.Hook{{Path: p.config.Hook, Args: []string{p.config.Hook}}}})
	}
	return a, nil, nil
}

// PostCreateContainer records.
func (p *plugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	p.record("PostCreateContainer", pod, ctr)
	return nil
}

// StartContainer records.
func (p *plugin) StartContainer(_ context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	p.record("StartContainer", pod, ctr)
	return nil
}

// PostStartContainer asks the runtime for another limit, if told to, after it has returned.
func (p *plugin) PostStartContainer(_ context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	p.record("PostStartContainer", pod, ctr)
	if p.config.AfterStart > 0 {
		u := &api.ContainerUpdate{}
		u.SetContainerId(ctr.GetId())
		u.SetLinuxMemoryLimit(p.config.AfterStart)
		go func() {
			failed, err := p.stub.UpdateContainers([]*api.ContainerUpdate{u})
			if err != nil || len(failed) > 0 {
				fmt.Fprintln(os.Stderr, "stock: update:", err, len(failed))
			}
		}()
	}
	return nil
}

// UpdateContainer sets its own limit.
func (p *plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, ctr *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	p.record("UpdateContainer", pod, ctr)
	if p.config.Memory == 0 {
		return nil, nil
	}
	u := &api.ContainerUpdate{}
	u.SetContainerId(ctr.GetId())
	u.SetLinuxMemoryLimit(p.config.Memory)
	return []*api.ContainerUpdate{u}, nil
}

// PostUpdateContainer records.
func (p *plugin) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	p.record("PostUpdateContainer", pod, ctr)
	return nil
}

// StopContainer records.
func (p *plugin) StopContainer(_ context.Context, pod *api.PodSandbox, ctr *api.Container) ([]*api.ContainerUpdate, error) {
	p.record("StopContainer", pod, ctr)
	return nil, nil
}

// RemoveContainer records.
func (p *plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	p.record("RemoveContainer", pod, ctr)
	return nil
}
