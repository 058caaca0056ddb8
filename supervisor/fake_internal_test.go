package supervisor

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// fakePlugin is a plugin in this process; a hook that is nil answers at once and with nothing.
type fakePlugin struct {
	api.PluginService
	mask      api.EventMask
	configure func() (*api.ConfigureResponse, error)
	// configured is told the configuration, each time.
	configured func(config string) error
	sync       func(pods []*api.PodSandbox, ctrs []*api.Container) error
	create     func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error)
	decode     func() // its replies to CreateContainer are large: this is how long it takes to decode one
	event      func(ev string, id string) error
	validate   func() (*api.ValidateContainerAdjustmentResponse, error)
	judge      func(*api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) // instead of validate
	update     func(*api.UpdateContainerRequest) (*api.UpdateContainerResponse, error)
	stop       func(*api.StopContainerRequest) (*api.StopContainerResponse, error)
	updates    []*api.ContainerUpdate // in the reply to Synchronize
	ending     func()                 // before it ends in order
}

func (f *fakePlugin) ev(name, id string) error {
	if f.event != nil {
		return f.event(name, id)
	}
	return nil
}

func (f *fakePlugin) Configure(_ context.Context, r *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	if f.configured != nil {
		if err := f.configured(r.GetConfig()); err != nil {
			return nil, err
		}
	}
	if f.configure != nil {
		return f.configure()
	}
	m := f.mask
	if m == 0 {
		m = api.ValidEvents
		m.Clear(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	}
	return &api.ConfigureResponse{Events: int32(m)}, nil
}

func (f *fakePlugin) CreateContainer(_ context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	if f.create != nil {
		return f.create(r)
	}
	return &api.CreateContainerResponse{}, nil
}

func (f *fakePlugin) UpdateContainer(_ context.Context, r *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
	if f.update != nil {
		return f.update(r)
	}
	return &api.UpdateContainerResponse{}, f.ev("UpdateContainer", r.GetContainer().GetId())
}

func (f *fakePlugin) StopContainer(_ context.Context, r *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	if f.stop != nil {
		return f.stop(r)
	}
	return &api.StopContainerResponse{}, f.ev("StopContainer", r.GetContainer().GetId())
}

func (f *fakePlugin) RunPodSandbox(_ context.Context, r *api.RunPodSandboxRequest) (*api.RunPodSandboxResponse, error) {
	return &api.RunPodSandboxResponse{}, f.ev("RunPodSandbox", r.GetPod().GetId())
}

func (f *fakePlugin) UpdatePodSandbox(_ context.Context, r *api.UpdatePodSandboxRequest) (*api.UpdatePodSandboxResponse, error) {
	return &api.UpdatePodSandboxResponse{}, f.ev("UpdatePodSandbox", r.GetPod().GetId())
}

func (f *fakePlugin) StopPodSandbox(_ context.Context, r *api.StopPodSandboxRequest) (*api.StopPodSandboxResponse, error) {
	return &api.StopPodSandboxResponse{}, f.ev("StopPodSandbox", r.GetPod().GetId())
}

func (f *fakePlugin) RemovePodSandbox(_ context.Context, r *api.RemovePodSandboxRequest) (*api.RemovePodSandboxResponse, error) {
	return &api.RemovePodSandboxResponse{}, f.ev("RemovePodSandbox", r.GetPod().GetId())
}

func (f *fakePlugin) PostCreateContainer(_ context.Context, r *api.PostCreateContainerRequest) (*api.PostCreateContainerResponse, error) {
	return &api.PostCreateContainerResponse{}, f.ev("PostCreateContainer", r.GetContainer().GetId())
}

func (f *fakePlugin) StartContainer(_ context.Context, r *api.StartContainerRequest) (*api.StartContainerResponse, error) {
	return &api.StartContainerResponse{}, f.ev("StartContainer", r.GetContainer().GetId())
}

func (f *fakePlugin) PostStartContainer(_ context.Context, r *api.PostStartContainerRequest) (*api.PostStartContainerResponse, error) {
	return &api.PostStartContainerResponse{}, f.ev("PostStartContainer", r.GetContainer().GetId())
}

func (f *fakePlugin) RemoveContainer(_ context.Context, r *api.RemoveContainerRequest) (*api.RemoveContainerResponse, error) {
	return &api.RemoveContainerResponse{}, f.ev("RemoveContainer", r.GetContainer().GetId())
}

func (f *fakePlugin) ValidateContainerAdjustment(_ context.Context, r *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
	if f.judge != nil {
		return f.judge(r)
	}
	return f.validate()
}

// fakeInc is one incarnation of a fakePlugin.
type fakeInc struct {
	p    *fakePlugin
	h    Hooks
	pid  int
	once sync.Once
	done chan struct{}
	disc chan struct{}
	exit Exit
}

func (i *fakeInc) PID() int                  { return i.pid }
func (i *fakeInc) Plugin() api.PluginService { return patient{i.p} }
func (i *fakeInc) CallContext(ctx context.Context, _ time.Time) context.Context {
	return ctx
}

func (i *fakeInc) Synchronize(_ context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	if i.p.sync != nil {
		return i.p.updates, i.p.sync(pods, ctrs)
	}
	return i.p.updates, nil
}

func (i *fakeInc) InPlace() bool                 { return true }
func (i *fakeInc) Health(context.Context) error  { return nil }
func (i *fakeInc) Identity() Identity            { return Identity{SHA256: "x"} }
func (i *fakeInc) Disconnected() <-chan struct{} { return i.disc }
func (i *fakeInc) Done() <-chan struct{}         { return i.done }
func (i *fakeInc) Exit() Exit                    { return i.exit }
func (i *fakeInc) end(reason, detail string) {
	i.endWith(Exit{Reason: reason, Detail: detail, At: time.Now()})
}

func (i *fakeInc) endWith(x Exit) {
	i.once.Do(func() {
		i.exit = x
		close(i.disc)
		close(i.done)
	})
}

func (i *fakeInc) Stop(context.Context) {
	if i.p.ending != nil {
		i.p.ending()
	}
	i.end("stopped", "exit code 0")
}

func (i *fakeInc) Kill(why string) {
	if why == "hung" || why == "health" { // as cmd/nri-supervisor/launcher.go maps it
		i.end(why, `signal "killed" after 1s (`+why+`)`)
		return
	}
	i.end("signal", `signal "killed" after 1s (signal)`)
}

// fakeLauncher makes incarnations without a process.
type fakeLauncher struct {
	mu   sync.Mutex
	n    int
	make map[string]func(n int) (*fakePlugin, error)
	incs map[string]*fakeInc
	all  map[string][]*fakeInc
}

// living is how many incarnations of the plugin have not ended.
func (l *fakeLauncher) living(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, i := range l.all[name] {
		select {
		case <-i.done:
		default:
			n++
		}
	}
	return n
}

func (l *fakeLauncher) Launch(_ context.Context, p *policy.Plugin, h Hooks) (Incarnation, error) {
	l.mu.Lock()
	l.n++
	n := l.n
	l.mu.Unlock()
	pl, err := l.make[p.Name](n)
	if err != nil {
		return nil, err
	}
	i := &fakeInc{p: pl, h: h, pid: 1000 + n, done: make(chan struct{}), disc: make(chan struct{})}
	l.mu.Lock()
	l.incs[p.Name] = i
	if l.all == nil {
		l.all = map[string][]*fakeInc{}
	}
	l.all[p.Name] = append(l.all[p.Name], i)
	l.mu.Unlock()
	return i, nil
}

func (l *fakeLauncher) inc(name string) *fakeInc {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.incs[name]
}
