package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/filelook"
	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// launcher joins the supervisor to package isolation.
type launcher struct {
	runDir string
	host   *isolation.Host
	// looks look at the files of all plugins, some of which may never answer.
	looks *filelook.Looks
	// resolving is held by who finds out what is of the plugins of a configuration, mu by who changes the fields below, without looking at any file.
	resolving, mu sync.Mutex
	// confine says what each plugin may do. It knows each plugin that was ever started.
	confine confinements
	// inForce is the configuration by now: what is of a plugin that a reload added is kept from all that start from then on. Nil: that of confine.
	inForce func() *policy.Config
	known   *policy.Config // of which confine knows the plugins; guarded by resolving
	runs    runners
	files   fingerprints
	docks   docks
	// compute is told of what takes a processor for long, until done is called. Nil: nobody is.
	compute func() (done func())
	// reduced is told what of a profile cannot be applied on this host.
	reduced func(plugin, team string, missing []string)
	// remade is told when the socket of a plugin that attaches was removed: nil if it was made anew.
	remade func(p *policy.Plugin, err error)
}

// Launch starts one incarnation of a plugin.
func (l *launcher) Launch(ctx context.Context, p *policy.Plugin, h supervisor.Hooks) (supervisor.Incarnation, error) {
	if p.Attaches() {
		return l.attach(ctx, p, h)
	}
	path := p.Spec.Exec.Path
	self, err := filelook.Ask(l.looks, path, func() bool { return itself(path) })
	if err != nil {
		return nil, fmt.Errorf("executable %q: %w", path, err)
	}
	if a := p.Spec.Exec.Args; (len(a) == 0 || a[0] == "run") && self {
		return nil, fmt.Errorf("start %q: it is nri-supervisor itself, which would host itself: name the plugin's own binary in exec.path", p.Spec.Exec.Path)
	}
	node, err := nodeName()
	if err != nil {
		return nil, err
	}
	env, err := p.Environ(node, l.readReference) // at each start, so that a rotated secret reaches the next incarnation
	if err != nil {
		return nil, err
	}
	loaded := loadedFiles(l.looks, p, env)
	confine, err := l.confinement(p, loaded...)
	if err != nil {
		return nil, err
	}
	run, err := l.runs.admit(p, confine, loaded)
	if err != nil {
		return nil, err
	}
	if l.compute != nil {
		defer l.compute()() // a file is read and hashed, and a process made
	}
	i, err := l.start(ctx, run, isolation.Spec{
		Name: p.Name, Index: p.Index, Path: p.Spec.Exec.Path, Args: p.Spec.Exec.Args, Env: env,
		SHA256: p.Spec.Exec.SHA256, CheckPath: p.CheckExecPath, Protocol: isolation.Protocol(p.Spec.Exec.Protocol), RunDir: l.runDir,
		Host: l.host, Confine: confine, Silent: l.looks.Silent(), OnUpdate: h.Update, OnOOM: h.OutOfMemory,
		OnOutput: func(line isolation.Line) {
			h.Output(supervisor.OutputLine{
				PID: line.PID, Stream: string(line.Stream), Level: line.Level, Text: line.Text, Truncated: line.Truncated, Dropped: line.Dropped,
			})
		},
	})
	if err != nil {
		if se, ok := errors.AsType[*isolation.StartError](err); ok {
			se.Err = l.tooLate(se.Err)
			return nil, startError{se}
		}
		return nil, err
	}
	if missing := i.Reduced(); len(missing) > 0 {
		l.reduced(p.Name, p.Team, missing)
	}
	return &incarnation{Instance: i, identity: l.identify(ctx, p, i), inPlace: p.Spec.Exec.Protocol == policy.GoPlugin}, nil
}

// confinement is what the plugin may do, and keeps from those that start later what is the plugin's, also files that its whole environment makes it load.
func (l *launcher) confinement(p *policy.Plugin, loaded ...loadedFile) (isolation.Confinement, error) {
	if l.inForce != nil {
		l.resolve(l.inForce())
	}
	own := confinements{looks: l.looks}.with(p)
	own.keepLoaded(loaded...)
	known := l.learn(own)
	c, err := known.of(p)
	if err != nil {
		return c, err
	}
	// What did not answer yet at the last look is left out by the stage, but for what the plugin lists itself.
	var system []string
	if p.Spec.Sandbox.Profile != policy.ProfileNone {
		system = slices.Concat(c.PrivateTmp, isolation.Standard(nil).Protect)
	}
	l.looks.Served(slices.Concat(known.kept, known.hidden, known.written, c.Protect), system)
	for _, path := range slices.Concat(c.ReadOnly, c.ReadWrite) {
		if err := l.looks.Answers(path); err != nil {
			return c, fmt.Errorf("show %q: %w", path, err)
		}
	}
	return c, nil
}

// resolve finds out what is of the plugins of a configuration, once.
func (l *launcher) resolve(cfg *policy.Config) {
	l.resolving.Lock()
	defer l.resolving.Unlock()
	if cfg != l.known {
		l.runs.configure(cfg.Plugins, l.learn(confinements{looks: l.looks}.with(cfg.Plugins...)))
		l.known = cfg
	}
}

// learn adds what has to be kept from plugins to what is known of that, and returns all of it.
func (l *launcher) learn(more confinements) confinements {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confine = l.confine.merged(more)
	return l.confine
}

// readReference reads a file that a manifest refers to.
func (l *launcher) readReference(path string) ([]byte, error) {
	return filelook.Read(l.looks, path, func() ([]byte, error) { return policy.ReadReference(path) })
}

// lateStart is how much longer than its limit a start may take: to end the process takes that long at most, or a file system does not answer since the last look at it.
const lateStart = 8 * time.Second

// start starts the process, and counts it as one that runs until it is over. What does not come back in time is ended when it does.
func (l *launcher) start(ctx context.Context, run *runner, spec isolation.Spec) (*isolation.Instance, error) {
	type answer struct {
		inst *isolation.Instance
		err  error
	}
	done, given := make(chan answer), make(chan struct{})
	go func() {
		i, err := isolation.Start(ctx, spec)
		if err != nil {
			l.runs.failed(run, err)
		} else {
			l.runs.started(run, i)
		}
		select {
		case done <- answer{i, err}:
		case <-given:
			if err == nil {
				i.Kill(isolation.ReasonStopped)
			}
		}
		if err == nil {
			<-i.Done()
			l.runs.leave(run)
		}
	}()
	late := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lateStart, func() { close(late) }) })()
	select {
	case a := <-done:
		return a.inst, a.err
	case <-late:
		close(given)
		return nil, l.tooLate(fmt.Errorf("start %q: a file system that it needs does not answer: %w", spec.Path, context.DeadlineExceeded))
	}
}

// tooLate is the error of a start that took too long, with what does not answer by now.
func (l *launcher) tooLate(err error) error {
	silent := l.looks.Silent()
	if len(silent) == 0 || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w; file systems do not answer: %q", err, silent)
}

// identify asks what was started. A plugin that does not say is not worse for it.
func (l *launcher) identify(ctx context.Context, p *policy.Plugin, i *isolation.Instance) supervisor.Identity {
	id := registered(p, i.Registration())
	id.SHA256, id.Reduced = l.files.of(ctx, i.PID()), strings.Join(i.Reduced(), "; ")
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if d, err := i.Describe(ctx); err == nil {
		id.Version = d.Version
	}
	return id
}

// itself reports whether the file is this program.
func itself(path string) bool {
	file, err := os.Stat(path)
	if err != nil {
		return false
	}
	self, err := os.Stat("/proc/self/exe")
	return err == nil && os.SameFile(file, self)
}

// nodeName is NODE_NAME, which a DaemonSet sets from spec.nodeName, else the host's name.
func nodeName() (string, error) {
	if n := os.Getenv("NODE_NAME"); n != "" {
		return n, nil
	}
	return os.Hostname()
}

// startError tells the supervisor how a process that did not come up ended.
type startError struct{ *isolation.StartError }

// StartExit returns the end of the process.
func (e startError) StartExit() supervisor.Exit { return translate(e.Exit) }

// incarnation is an instance as the supervisor sees it.
type incarnation struct {
	*isolation.Instance
	identity supervisor.Identity
	inPlace  bool
}

// CallContext returns a context with a deadline that is never cancelled.
func (i *incarnation) CallContext(ctx context.Context, d time.Time) context.Context {
	return isolation.WithDeadline(ctx, d)
}

// Plugin is the NRI service of the plugin.
func (i *incarnation) Plugin() api.PluginService { return i.Instance.Plugin() }

// InPlace reports whether the plugin is built with the SDK.
func (i *incarnation) InPlace() bool { return i.inPlace }

// Identity says what runs.
func (i *incarnation) Identity() supervisor.Identity { return i.identity }

// Disconnected is closed when the NRI connection has ended.
func (i *incarnation) Disconnected() <-chan struct{} { return i.ConnClosed() }

// Exit says how it ended.
func (i *incarnation) Exit() supervisor.Exit { return translate(i.Instance.Exit()) }

// Stop ends the process in order.
func (i *incarnation) Stop(ctx context.Context) { i.Instance.Stop(ctx) }

// Usage is what it uses of its limits.
func (i *incarnation) Usage() supervisor.Usage { return supervisor.Usage(i.Instance.Usage()) }

// Kill ends it at once.
func (i *incarnation) Kill(why string) { i.Instance.Kill(killReason(why, isolation.ReasonSignal)) }

func translate(e isolation.Exit) supervisor.Exit {
	return supervisor.Exit{Reason: string(e.Reason), Detail: e.String(), Output: e.LastOutput, At: e.Ended, Uptime: e.Uptime}
}
