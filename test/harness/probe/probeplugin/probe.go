package probeplugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/plugins"
)

// config is the plugin's configuration.
type config struct {
	// Adjust is a ContainerAdjustment as protobuf's JSON, given to each container.
	Adjust json.RawMessage `json:"adjust"`
	// Name is set as the variable PROBE on each container; empty: not.
	Name string `json:"name"`
	// ReserveCPU makes the reply to UpdateContainer set the shares of its container to 10 more than asked for.
	ReserveCPU bool `json:"reserveCPU"`
	// Record is the file that is appended to; empty: none.
	Record string `json:"record"`
	// Validate makes the plugin subscribe to ValidateContainerAdjustment.
	Validate bool `json:"validate"`
	// Refuse makes it refuse each adjustment, with this reason.
	Refuse string `json:"refuse"`
}

// line is one line of the record.
type line struct {
	What       string   `json:"what"`
	ID         string   `json:"id,omitempty"`
	Pods       int      `json:"pods,omitempty"`
	Containers int      `json:"containers,omitempty"`
	Known      []string `json:"known,omitempty"` // ids of the containers, of the first 2000
	Bytes      int      `json:"bytes,omitempty"`
	Duplicates int      `json:"duplicates,omitempty"`
	Failed     []string `json:"failed,omitempty"`
	Err        string   `json:"err,omitempty"`
	Config     string   `json:"config,omitempty"`
	Env        []string `json:"env,omitempty"`
	FDs        []string `json:"fds,omitempty"`
	Plugins    string   `json:"plugins,omitempty"`
	Owners     []string `json:"owners,omitempty"`
	At         int64    `json:"at"` // nanoseconds since the epoch
	PID        int      `json:"pid"`
}

// mostIDs bounds a line of the record.
const mostIDs = 2000

// Plugin is the probe.
type Plugin struct {
	stub    stub.Stub
	running atomic.Int32 // events that are being handled

	mu     sync.Mutex // guards the rest
	config config
	adjust *api.ContainerAdjustment
}

// Main runs the plugin and exits.
func Main() {
	p := &Plugin{}
	plugins.Main(p, plugins.WithStub(func(s stub.Stub) { p.stub = s }), plugins.WithSocket(os.Getenv("PROBE_SOCKET")))
}

func (p *Plugin) record(l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.config.Record == "" {
		return
	}
	l.At, l.PID = time.Now().UnixNano(), os.Getpid()
	data, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(p.config.Record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := f.Write(append(data, '\n')); err != nil {
		panic(err)
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
}

// Configure takes the configuration and records what the process was given.
func (p *Plugin) Configure(_ context.Context, text, _, _ string) (api.EventMask, error) {
	c, adjust := config{}, &api.ContainerAdjustment{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return 0, fmt.Errorf("read config: %w", err)
		}
	}
	if len(c.Adjust) > 0 {
		if err := protojson.Unmarshal(c.Adjust, adjust); err != nil {
			return 0, fmt.Errorf("read config: adjust: %w", err)
		}
	}
	p.mu.Lock()
	p.config, p.adjust = c, adjust
	p.mu.Unlock()
	p.record(line{What: "Configure", Config: text, Env: os.Environ(), FDs: descriptors()})
	mask := api.ValidEvents
	if !c.Validate {
		mask.Clear(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	}
	return mask, nil
}

func descriptors() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil { // else it was the one of this folder
			out = append(out, e.Name()+" "+target)
		}
	}
	return out
}

// Synchronize counts what it was told.
func (p *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	l := line{What: "Synchronize", Pods: len(pods), Containers: len(ctrs)}
	seen := map[string]bool{}
	for _, pod := range pods {
		l.Bytes += proto.Size(pod)
		if seen["pod/"+pod.GetId()] {
			l.Duplicates++
		}
		seen["pod/"+pod.GetId()] = true
	}
	for i, c := range ctrs {
		if i < mostIDs {
			l.Known = append(l.Known, c.GetId())
		}
		l.Bytes += proto.Size(c)
		if seen[c.GetPodSandboxId()+"/"+c.GetId()] {
			l.Duplicates++
		}
		seen[c.GetPodSandboxId()+"/"+c.GetId()] = true
	}
	p.record(l)
	return nil, nil
}

// CreateContainer adjusts as configured.
func (p *Plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	updates := p.event("CreateContainer", pod, c)
	p.mu.Lock()
	adjust, name := proto.CloneOf(p.adjust), p.config.Name
	p.mu.Unlock()
	if name != "" {
		adjust.AddEnv("PROBE", name)
	}
	return adjust, updates, nil
}

// UpdateContainer updates as configured.
func (p *Plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	updates := p.event("UpdateContainer", pod, c)
	p.mu.Lock()
	reserve := p.config.ReserveCPU
	p.mu.Unlock()
	if reserve {
		u := &api.ContainerUpdate{}
		u.SetContainerId(c.GetId())
		u.SetLinuxCPUShares(r.GetCpu().GetShares().GetValue() + 10)
		updates = append(updates, u)
	}
	return updates, nil
}

// StopContainer updates as the pod asks for.
func (p *Plugin) StopContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	return p.event("StopContainer", pod, c), nil
}

// ValidateContainerAdjustment refuses when the pod or the configuration asks for it.
func (p *Plugin) ValidateContainerAdjustment(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
	l := line{What: "ValidateContainerAdjustment", ID: req.GetContainer().GetId()}
	for _, pl := range req.GetPlugins() {
		l.Plugins += pl.GetIndex() + "-" + pl.GetName() + " "
	}
	for _, e := range req.GetAdjust().GetEnv() {
		owner, _ := req.GetOwners().EnvOwner(req.GetContainer().GetId(), e.GetKey())
		l.Owners = append(l.Owners, e.GetKey()+" "+owner)
	}
	p.record(l)
	p.mu.Lock()
	reason := p.config.Refuse
	p.mu.Unlock()
	if r := req.GetPod().GetAnnotations()["probe/refuse"]; r != "" {
		reason = r
	}
	if reason != "" {
		return fmt.Errorf("probe: %s", reason)
	}
	return nil
}

// event does what the pod's annotations ask for at the event, and returns the updates that the reply shall have.
func (p *Plugin) event(name string, pod *api.PodSandbox, c *api.Container) []*api.ContainerUpdate {
	id := pod.GetId()
	if c != nil {
		id = c.GetId()
	}
	if p.running.Add(1) > 1 {
		p.record(line{What: "overlap", ID: id})
	}
	defer p.running.Add(-1)
	p.record(line{What: name, ID: id})
	ids := func(what string) ([]string, bool) {
		text, ok := pod.GetAnnotations()["probe/"+what+"."+name]
		return strings.Split(text, ","), ok
	}
	if list, ok := ids("inside"); ok {
		p.ask("inside", list)
	}
	if list, ok := ids("outside"); ok {
		go p.ask("outside", list)
	}
	if list, ok := ids("flood"); ok {
		n, err := strconv.Atoi(list[0])
		if err != nil {
			panic(err)
		}
		go p.flood(n, id)
	}
	if _, ok := ids("spawn"); ok {
		spawn()
	}
	if list, ok := ids("update"); ok {
		return updates(list, 77)
	}
	return nil
}

// ask asks the runtime to update containers, and records what it says.
func (p *Plugin) ask(what string, list []string) {
	failed, err := p.stub.UpdateContainers(updates(list, 99))
	l := line{What: what, ID: strings.Join(list, ",")}
	if err != nil {
		l.Err = err.Error()
	}
	for _, f := range failed {
		l.Failed = append(l.Failed, f.GetContainerId())
	}
	p.record(l)
}

func (p *Plugin) flood(n int, id string) {
	l := line{What: "flood", ID: id}
	for i := range n {
		if _, err := p.stub.UpdateContainers(updates([]string{id}, uint64(1000+i))); err != nil {
			l.Err = err.Error()
		}
	}
	p.record(l)
}

// spawn starts a child that ignores polite requests and holds our pipes.
func spawn() {
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP INT; while :; do sleep 1000; done") //nolint:noctx // its point is to outlive everybody
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

func updates(ids []string, shares uint64) []*api.ContainerUpdate {
	var out []*api.ContainerUpdate
	for _, id := range ids {
		u := &api.ContainerUpdate{}
		u.SetContainerId(id)
		u.SetLinuxCPUShares(shares)
		out = append(out, u)
	}
	return out
}
