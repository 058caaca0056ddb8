package isolation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// defaultPath is the plugin's PATH, the one that Debian gives to root.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Start executes the plugin and returns when it is ready to be configured: its handshake is done (protocol GoPlugin) and
// it called RegisterPlugin on its NRI connection. It blocks until then, until ctx ends, or until the process exits. ctx
// bounds the start only, not the life of the process.
//
// On error, a *StartError, nothing is left running.
func Start(ctx context.Context, s Spec) (*Instance, error) {
	began := time.Now()
	if err := s.check(); err != nil {
		return nil, notStarted(PhaseSpec, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, notStarted(PhaseExec, err)
	}
	bin, err := openBinary(&s)
	if err != nil {
		return nil, notStarted(PhaseBinary, err)
	}
	defer bin.close()
	dir, err := newRunDir(ctx, s.RunDir, s.Name)
	if err != nil {
		return nil, notStarted(PhaseRunDir, err)
	}
	who, err := s.Host.userOf(&s)
	if err == nil {
		err = dir.giveTo(who)
	}
	if err == nil && s.Host != nil && s.Confine.mounts() {
		if err = dir.bound(who); s.Confine.optional(PartMounts) && lacking(err) {
			err = nil // the stage cannot mount anything either, and says so
		}
	}
	if err != nil {
		return nil, notStarted(PhaseSandbox, errors.Join(err, dir.remove()))
	}
	leaf, reduced, err := s.Host.newLeaf(s.Name+"."+filepath.Base(dir.path), &s.Confine)
	if err != nil {
		return nil, notStarted(PhaseSandbox, errors.Join(err, dir.remove()))
	}
	undo := func(err error) *StartError {
		return notStarted(PhaseExec, errors.Join(err, leaf.remove(), dir.remove()))
	}
	local, peer, err := socketPair()
	if err != nil {
		return nil, undo(err)
	}
	defer func() { _ = peer.Close() }()        // usually closed long before
	conn, err := newNRIConn(local, s.OnUpdate) //nolint:contextcheck // the connection outlives the start
	if err != nil {
		return nil, undo(err)
	}
	s.StopGrace = s.StopGrace.withDefaults()
	i := &Instance{
		spec: s, dir: dir, leaf: leaf, user: who, conn: conn, out: &output{sink: s.OnOutput},
		drained: make(chan struct{}), done: make(chan struct{}),
	}
	if reduced != "" {
		i.reduced = append(i.reduced, reduced)
	}
	phase, err := i.start(ctx, bin, peer)
	if err == nil {
		return i, nil
	}
	return nil, i.startFailed(phase, time.Since(began), err)
}

// notStarted is the error of a plugin that was not executed.
func notStarted(phase Phase, err error) *StartError {
	return &StartError{Phase: phase, Err: err, Exit: Exit{Reason: ReasonStartFailed, Code: -1}}
}

// start executes the process and waits until it is ready.
func (i *Instance) start(ctx context.Context, bin binary, peer *os.File) (Phase, error) {
	started := make(chan struct{})
	defer close(started)
	execute := func(env []string) (*process, error) { return i.execute(ctx, bin, peer, env, started) }
	if i.spec.Protocol == NRI {
		p, err := execute(nil)
		if err != nil {
			return PhaseExec, err
		}
		return PhaseRegister, i.awaitRegistration(ctx, p)
	}
	i.plane = newControlPlane(i.dir, i.spec.Path, execute)
	calls, cancel := context.WithCancel(ctx)
	defer cancel()
	i.endCalls = cancel
	if phase, err := i.shakeHands(ctx, calls); err != nil {
		return phase, err
	}
	return PhaseRegister, i.awaitRegistration(ctx, i.process())
}

// shakeHands runs go-plugin's start, which knows no context and ends only with the process. calls is the context of the
// calls that the start makes, which also ends with the process.
func (i *Instance) shakeHands(ctx, calls context.Context) (Phase, error) {
	var phase Phase
	done := make(chan error, 1)
	go func() {
		var err error
		phase, err = i.plane.start(calls)
		done <- err
	}()
	select {
	case err := <-done:
		return phase, err
	case <-i.conn.registered:
		if i.out.sawFirstLine() {
			break
		}
		// A plugin of ours registers only after the handshake.
		i.abandon()
		<-done //nolint:errcheck // the consequence of being killed
		return PhaseHandshake, errStockPlugin
	case <-ctx.Done():
		i.abandon()
		if err := <-done; err == nil {
			phase = PhaseControl
		}
		return phase, ctx.Err()
	}
	select {
	case err := <-done:
		return phase, err
	case <-ctx.Done():
		i.abandon()
		if err := <-done; err == nil {
			phase = PhaseControl
		}
		return phase, ctx.Err()
	}
}

// abandon kills the process, or sees to it that it is killed as soon as it is executed.
func (i *Instance) abandon() {
	i.setCause(ReasonStartFailed)
	if p := i.process(); p != nil {
		p.signal(unix.SIGKILL)
	}
}

func (i *Instance) awaitRegistration(ctx context.Context, p *process) error {
	select {
	case <-i.conn.registered:
		return nil
	case <-p.exited:
		return errExited
	case <-i.conn.closed:
		return errConnClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// execute starts the process with its pipes and everything that watches it.
func (i *Instance) execute(ctx context.Context, bin binary, peer *os.File, env []string, started <-chan struct{}) (*process, error) {
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdout.Close(), stdoutW.Close())
	}
	cmd := bin.command()
	cmd.Args, cmd.Env = append([]string{i.spec.Path}, i.spec.Args...), i.environment(env)
	var stage *stage
	if i.spec.Host != nil {
		if cmd, stage, err = i.newStage(bin, env); err != nil {
			return nil, errors.Join(err, stdout.Close(), stdoutW.Close(), stderr.Close(), stderrW.Close())
		}
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = i.dir.path, stdoutW, stderrW // os/exec opens /dev/null as stdin
	cmd.ExtraFiles = append([]*os.File{peer}, cmd.ExtraFiles...)   // becomes descriptor 3
	p, err := startProcess(cmd, i.leaf)
	// The other ends belong to the process alone, so that we see when it closes them.
	err = errors.Join(err, stdoutW.Close(), stderrW.Close(), peer.Close())
	stage.started()
	if p == nil {
		return nil, errors.Join(err, stage.close(), stdout.Close(), stderr.Close())
	}
	i.mu.Lock()
	i.proc = p
	i.pipes = []*os.File{stdout, stderr}
	abandoned := i.cause != ""
	i.mu.Unlock()
	if abandoned || err != nil {
		p.signal(unix.SIGKILL)
	}
	i.out.pid = p.pid
	i.drain(stdout, stderr)
	go i.supervise(p, started)
	if i.leaf != nil && i.leaf.oomSingle {
		i.help(func() { i.watchOOM(p) })
	}
	if stage != nil && err == nil {
		err = i.awaitStage(ctx, stage, p)
	}
	return p, err
}

// drain reads both pipes until they end or are closed.
func (i *Instance) drain(stdout, stderr *os.File) {
	var first func([]byte) bool
	if i.plane != nil {
		first = func(line []byte) bool {
			i.out.setFirstLine(line)
			i.plane.runner.first.give(line)
			return !isHandshake(string(line)) // it is not meant for people
		}
	}
	var both sync.WaitGroup
	both.Go(func() { i.out.drain(Stdout, stdout, first) })
	both.Go(func() { i.out.drain(Stderr, stderr, nil) })
	go func() {
		both.Wait()
		close(i.drained)
	}()
}

// environment is all that the process gets: defaults, what NRI and go-plugin need, and the Spec's.
func (i *Instance) environment(goPlugin []string) []string {
	env := []string{
		"PATH=" + defaultPath,
		"HOME=" + i.dir.path,
		api.PluginNameEnvVar + "=" + i.spec.Name,
		api.PluginIdxEnvVar + "=" + i.spec.Index,
		api.PluginSocketEnvVar + "=3",
	}
	if i.plane != nil {
		env = append(env, wire.EnvLogLevel+"="+i.spec.logLevel())
	}
	env = append(env, goPlugin...)
	return append(env, i.spec.Env...) // the last of a name wins
}
