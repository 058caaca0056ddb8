package body

import (
	"context"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
)

// runtime is NRI's adaptation with its callbacks under one mutex, as runtimes have them.
type runtime struct {
	dir, socket string
	nri         *adaptation.Adaptation
	front       *front
	lane        sync.Mutex // held during each event and update

	mu      sync.Mutex // guards what follows
	pods    []*api.PodSandbox
	ctrs    []*api.Container
	updates []*api.ContainerUpdate
}

type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}

func newRuntime(t *testing.T, dir string) *runtime {
	t.Helper()
	nrilog.Set(quiet{})
	r := &runtime{dir: dir, socket: filepath.Join(dir, "nri.sock")}
	r.start(t)
	t.Cleanup(r.stop)
	return r
}

func (r *runtime) start(t *testing.T) {
	t.Helper()
	a, err := adaptation.New("compat", "1.0.0", r.sync, r.update, adaptation.WithSocketPath(r.socket+".real"),
		adaptation.WithPluginPath(filepath.Join(r.dir, "none")), adaptation.WithPluginConfigPath(filepath.Join(r.dir, "none")))
	if err == nil {
		err = a.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.nri, r.front = a, newFront(t, r.socket, r.socket+".real")
}

// stop ends the runtime: its socket and connections close.
func (r *runtime) stop() {
	r.nri.Stop()
	r.front.close()
}

func (r *runtime) sync(ctx context.Context, cb adaptation.SyncCB) error {
	r.mu.Lock()
	pods, ctrs := append([]*api.PodSandbox{}, r.pods...), append([]*api.Container{}, r.ctrs...)
	r.mu.Unlock()
	_, err := cb(ctx, pods, ctrs)
	return err
}

func (r *runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.lane.Lock()
	defer r.lane.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates = append(r.updates, updates...)
	return nil, nil
}

// updated is the memory limit that an unsolicited update gave the container last.
func (r *runtime) updated(id string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := int64(0)
	for _, u := range r.updates {
		if u.GetContainerId() == id {
			limit = u.GetLinux().GetResources().GetMemory().GetLimit().GetValue()
		}
	}
	return limit
}

// call makes the runtime send an event and returns the reply, nil if the event has none. The types of requests and their names differ between versions; the fields do not.
func (r *runtime) call(t *testing.T, name string, p *api.PodSandbox, c *api.Container) any {
	t.Helper()
	method := reflect.ValueOf(r.nri).MethodByName(name)
	if !method.IsValid() {
		t.Fatalf("this version of NRI has no %s", name)
	}
	req := reflect.New(method.Type().In(1).Elem())
	set := func(field string, value any) {
		if f := req.Elem().FieldByName(field); f.IsValid() {
			f.Set(reflect.ValueOf(value))
		}
	}
	set("Pod", p)
	if c != nil {
		set("Container", c)
	}
	set("LinuxResources", &api.LinuxResources{Memory: &api.LinuxMemory{Limit: api.Int64(int64(64 << 20))}})
	r.lane.Lock()
	defer r.lane.Unlock()
	out := method.Call([]reflect.Value{reflect.ValueOf(t.Context()), req})
	if err, _ := out[len(out)-1].Interface().(error); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(out) == 1 {
		return nil
	}
	return out[0].Interface()
}

func pod(id string, labels ...string) *api.PodSandbox {
	p := &api.PodSandbox{Id: id, Name: id, Uid: "uid-" + id, Namespace: "default", Labels: map[string]string{}}
	for _, l := range labels {
		p.Labels[l] = "yes"
	}
	return p
}

func container(podID, id string) *api.Container {
	return &api.Container{Id: id, PodSandboxId: podID, Name: "main", Args: []string{"/bin/sleep"}, Linux: &api.LinuxContainer{Resources: &api.LinuxResources{}}}
}
