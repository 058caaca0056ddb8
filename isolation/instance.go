package isolation

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// ErrNoControl is returned by Health, Describe and SetLogLevel for a plugin without a control service (protocol NRI).
var ErrNoControl = errors.New("plugin has no control service")

// Registration is what the plugin said in RegisterPlugin.
type Registration struct {
	Name, Index string
	// NRIVersion is the version of the NRI module that the plugin is built with; empty for plugins older than that field.
	NRIVersion string
}

// Description is what a plugin built with the SDK says about itself.
type Description struct {
	// Version is the plugin's own version, SDKVersion and NRIVersion those of the modules it is built with.
	Version, SDKVersion, NRIVersion string
	// Events are the NRI events that it has handlers for, by NRI's names, in NRI's order.
	Events []string
}

// Instance is one incarnation of one plugin process. Its methods are safe for concurrent use.
type Instance struct {
	spec    Spec // with defaults
	dir     *runDir
	leaf    *cgroupLeaf // nil: none
	user    *User       // nil: the supervisor's
	conn    *nriConn
	plane   *controlPlane // nil for protocol NRI
	out     *output
	pipes   []*os.File // our ends of stdout and stderr
	drained chan struct{}
	// endCalls ends what the start asks the plugin; nil for protocol NRI. Set before the process is executed.
	endCalls context.CancelFunc
	done     chan struct{} // closed when all is over

	stopOnce sync.Once

	mu      sync.Mutex     // guards the rest
	proc    *process       // nil until executed
	reduced []string       // parts of the profile that this host cannot apply
	cause   Reason         // why it is being ended; empty: nobody asked for it
	ending  bool           // the process is gone: no new helper may start
	helpers sync.WaitGroup // goroutines that talk to the plugin; no Add once ending is set
	oom     bool           // the kernel killed something of it for want of memory, and that was not told yet when it ended
	exit    Exit

	oomsTold int // kills for want of memory that Spec.OnOOM was told of, or that are in the exit
}

// PID is the process id. It stays the same after the exit, when it may belong to somebody else.
func (i *Instance) PID() int {
	if p := i.process(); p != nil {
		return p.pid
	}
	return 0
}

// Plugin is the NRI client of the plugin, for raw calls. A plugin that only knows StateChange gets that instead of the
// dedicated calls. After the connection is closed every call returns an error that wraps ttrpc.ErrClosed.
func (i *Instance) Plugin() api.PluginService { return i.conn.plugin }

// Configure configures the plugin. A plugin of the SDK may be configured again; NRI's stub answers a second one and blocks on
// the third, so a plugin of protocol NRI is configured once.
func (i *Instance) Configure(ctx context.Context, req *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	return i.conn.plugin.Configure(ctx, req)
}

// Synchronize tells the plugin the state, in as many parts as ttrpc's limit of 4 MiB a message needs, and returns the
// updates that the plugin answers the last part with. ctx spans all parts. Two of them must not run at the same time: a
// plugin puts together whatever parts arrive.
func (i *Instance) Synchronize(ctx context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	return synchronize(ctx, i.conn.plugin, pods, ctrs, maxSyncPart)
}

// Health asks the control service whether the plugin is well: nil, the plugin's reason, or ErrNoControl.
func (i *Instance) Health(ctx context.Context) error {
	c, err := i.control()
	if err != nil {
		return err
	}
	return c.Health(ctx)
}

// Describe asks the control service what the plugin is. The error is ErrNoControl for a plugin without one.
func (i *Instance) Describe(ctx context.Context) (Description, error) {
	c, err := i.control()
	if err != nil {
		return Description{}, err
	}
	d, err := c.Describe(ctx)
	return Description(d), err
}

// Usage is what the process and its children use now. It reads a few files of the cgroup, and may be called at any time.
func (i *Instance) Usage() Usage {
	return Usage{Memory: i.leaf.usage(), MemoryLimit: uint64(max(i.spec.Confine.Limits.Memory, 0))}
}

// SetLogLevel changes the level the plugin logs at: trace, debug, info, warn or error.
func (i *Instance) SetLogLevel(ctx context.Context, level string) error {
	c, err := i.control()
	if err != nil {
		return err
	}
	return c.SetLogLevel(ctx, level)
}

func (i *Instance) control() (wire.Control, error) {
	if i.plane == nil {
		return nil, ErrNoControl
	}
	c := i.plane.control()
	if c == nil {
		return nil, ErrNoControl
	}
	return c, nil
}

// Registration is what the plugin said in RegisterPlugin.
func (i *Instance) Registration() Registration { return i.conn.registration() }

// ConnClosed is closed when the NRI connection ended, by either side.
func (i *Instance) ConnClosed() <-chan struct{} { return i.conn.closed }

// Done is closed when the process is reaped, every goroutine of the instance has ended, and its directory is removed.
func (i *Instance) Done() <-chan struct{} { return i.done }

// Exit is how the incarnation ended. It is complete once Done is closed; before that it is the zero value.
func (i *Instance) Exit() Exit {
	i.mu.Lock()
	defer i.mu.Unlock()
	e := i.exit
	e.LastOutput = append([]string(nil), e.LastOutput...)
	return e
}

// Reduced names the optional parts of the Confinement that could not be applied on this host, each with the reason. It does not
// change after Start.
func (i *Instance) Reduced() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.reduced...)
}

func (i *Instance) process() *process {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.proc
}

// setCause records why the process is about to be ended. The first one wins, and none after the process is gone.
func (i *Instance) setCause(r Reason) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cause == "" && !i.ending && (i.proc == nil || !i.proc.gone()) {
		i.cause = r
	}
}

// supervise waits for the process to end and takes everything down in order.
func (i *Instance) supervise(p *process, started <-chan struct{}) {
	<-p.exited
	i.mu.Lock()
	i.ending = true
	i.mu.Unlock()
	if i.endCalls != nil {
		i.endCalls()
	}
	i.conn.close()
	i.closePipes()
	<-started // the start may still use the client
	if i.plane != nil {
		i.plane.close()
	}
	i.helpers.Wait()
	if i.leaf != nil {
		i.countOOM(p)
		_ = i.leaf.remove() // what cannot be removed is swept by the next supervisor
	}
	_ = i.dir.remove() // what cannot be removed is swept by the next start
	i.finish(p)
}

// closePipes waits until both outputs are read to their end, or for as long as Drain: somebody else may hold them.
func (i *Instance) closePipes() {
	timer := time.NewTimer(i.spec.StopGrace.Drain)
	defer timer.Stop()
	select {
	case <-i.drained:
	case <-timer.C:
	}
	for _, f := range i.pipes {
		_ = f.Close() // read only
	}
	<-i.drained
}

// finish publishes the exit.
func (i *Instance) finish(p *process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.exit = Exit{
		Reason: i.cause, Code: -1, LastOutput: i.out.lastOutput(),
		Started: p.started, Ended: p.ended, Uptime: p.ended.Sub(p.started), Left: p.left,
	}
	reason := ReasonExitCode
	if p.state != nil {
		i.exit.Code = p.state.ExitCode()
		if ws, ok := p.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			i.exit.Signal = ws.Signal()
			reason = ReasonSignal
			if i.oom && ws.Signal() == syscall.SIGKILL {
				reason = ReasonOOM
			}
		}
		if i.exit.Code == 0 {
			reason = ReasonClean
		}
	}
	if i.exit.Reason == "" || i.exit.Reason == ReasonSignal { // a signal of ours that came too late ended nothing
		i.exit.Reason = reason
	}
	close(i.done)
}
