package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	ttrpclog "github.com/containerd/log"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/audit"
)

// defaultConfig is where the configuration is, unless a flag says otherwise.
const defaultConfig = "/etc/nri-supervisor/config.yaml"

// waitAfterRestart bounds the wait for the plugins when the node was not booted since the last run: its pods run already (design §2.1).
const waitAfterRestart = 500 * time.Millisecond

// runFlags are the flags of run.
type runFlags struct {
	config    string
	logLevel  string
	logFormat string
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Host the plugins; this is the service",
		Long: `Run reads the configuration, starts the plugins, and registers with the
container runtime when they are ready. A plugin whose manifest is wrong is
reported and left out; it never keeps the others from running. SIGTERM stops
everything in order within ten seconds, a second one at once. A changed
configuration or manifest is applied soon after it was written, on SIGHUP, and
by nri-supervisor reload.`,
		Example: "  nri-supervisor run --config /etc/nri-supervisor/config.yaml --log-format json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.config, "config", "", "file with the Supervisor document (default "+defaultConfig+", if it exists)")
	cmd.Flags().StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	completeFlag(cmd, "log-level", completeNames(levels()...))
	cmd.Flags().StringVar(&f.logFormat, "log-format", "auto", "json, console, or auto: console on a terminal")
	completeFlag(cmd, "log-format", completeNames("auto", "console", "json"))
	return cmd
}

func (f *runFlags) run(cmd *cobra.Command) error {
	lvl, err := parseLevel(f.logLevel)
	if err != nil {
		return usageError{fmt.Errorf("--log-level %w", err)}
	}
	level := zap.NewAtomicLevelAt(lvl)
	log, repeats, err := newLogger(cmd.ErrOrStderr(), level, f.logFormat)
	if err != nil {
		return usageError{err}
	}
	defer briefly(repeats.flush)
	hangups, stop := heedHangups()
	defer stop()
	var pre *preinstalled
	if startedByRuntime() {
		if pre, err = takePreinstalled(); err != nil {
			return err
		}
	}
	path, err := configPath(f.config)
	if err != nil {
		return pre.tell(level, err)
	}
	b, err := load(policy.LoadOptions{ConfigFile: path, CheckFiles: true, Looks: newLooks()})
	if err != nil {
		return pre.tell(level, err)
	}
	if pre == nil {
		return serve(cmd.Context(), b, nil, hangups, log, level)
	}
	log, closeLog, err := pre.log(b.config.Supervisor.StateDir, level)
	if err != nil {
		return err
	}
	defer closeLog()
	if err := serve(cmd.Context(), b, pre, hangups, log, level); err != nil {
		log.Error("ended", zap.Error(err)) // nobody reads what the process says at its end
		return err
	}
	return nil
}

// configPath returns the configuration to read: the flag's, the default if it exists, or none.
func configPath(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if _, err := os.Stat(defaultConfig); err == nil {
		return defaultConfig, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("configuration: %w", err)
	}
	return "", nil
}

// serve runs the service until ctx ends. Parts start in the order below and stop in reverse.
func serve(ctx context.Context, b *boot, pre *preinstalled, hangups <-chan struct{}, log *zap.Logger, level zap.AtomicLevel) error {
	nri := newNRILog(log.Named("nri"))
	defer nri.stop()
	nrilog.Set(nri)
	ttrpclog.L.Logger.SetOutput(io.Discard) // ttrpc says there what a peer does wrong: a hostile plugin could fill the log
	defer b.close(log)                      //nolint:contextcheck // it closes after ctx has ended
	spec := b.config.Supervisor
	booted, unknown, err := prepareRunDir(spec.RunDir)
	if err != nil {
		return err
	}
	if unknown != nil {
		log.Warn("the next start will wait for plugins as after a boot", zap.Error(unknown))
	}
	turn, unlock, err := lockFolders(spec, func(err error) {
		log.Warn("a second nri-supervisor would not be noticed", zap.Error(err))
	})
	if err != nil {
		return err
	}
	defer unlock()
	systemd := newNotifier(log)
	sink := systemd.sink(logTo(log))
	b.open(func(err error) { sink(supervisor.StateProblem{Err: err.Error()}) })
	makeAudit(spec.Audit.Path, log)
	record := audit.Open(audit.Options{
		Path: spec.Audit.Path, MaxSize: spec.Audit.MaxSize.Value(), MaxFiles: spec.Audit.MaxFiles,
		OnProblem: func(err error, lost uint64) { sink(auditProblem(err, lost)) },
	})
	defer func() { //nolint:contextcheck // it closes after ctx has ended
		closeCtx, cancel := closing()
		defer cancel()
		if err := record.Close(closeCtx); err != nil {
			briefly(func() { log.Error("audit", zap.Error(err)) })
		}
	}()
	wait := spec.Startup.WaitForPlugins.Std()
	if !booted {
		wait = min(wait, waitAfterRestart)
	}
	host, err := openHost(spec.RunDir, log)
	if err != nil {
		return err
	}
	defer host.Close()
	registry := prometheus.NewRegistry()
	cpus := newProcessors()
	defer cpus.close()
	begun := cpus.compute()
	defer begun()
	launch := newLauncher(b.config, &b.source, host, log)
	launch.compute = cpus.compute
	defer briefly(launch.docks.close) // a folder of one may not answer
	options := supervisor.Options{
		Config: b.config, Source: &b.source, Stale: b.stale, Launcher: launch, Sink: sink, Registry: registry, Version: version,
		WaitForPlugins: wait, State: b.db, Loaded: b.found, Audit: record, Turn: turn, Computing: cpus.compute,
	}
	closeTracing, err := openTracing(spec.Tracing, &options, log) //nolint:contextcheck // it delivers the last spans after ctx has ended
	if err != nil {
		return err
	}
	defer closeTracing()
	if pre != nil {
		if err := turn(); err != nil {
			return err // the runtime waits for us: at once
		}
		pre.applyTo(&options)
	}
	sup := supervisor.New(options)
	launch.inForce = sup.Config

	side, stopSide := context.WithCancel(context.WithoutCancel(ctx)) // they outlive the plugins' stop
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stopSide()
	if err := serveHTTP(side, &parts, spec.Metrics, registry, sup, cpus, log); err != nil {
		return err
	}
	if err := serveAdmin(side, &parts, spec.Admin, sup, log, level); err != nil {
		return err
	}
	parts.Go(func() { keepHeap(side, sup.Rest, cpus.compute) })
	parts.Go(func() { feedWatchdog(side, sup, systemd.send, log) })
	watching, stopWatch := context.WithCancel(ctx)
	parts.Go(func() { watchFiles(watching, &b.source, hangups, sup, systemd, log) })
	defer stopWatch()
	begun()
	return sup.Run(ctx)
}

func auditProblem(err error, lost uint64) supervisor.Event {
	if err == nil {
		return supervisor.AuditProblem{Lost: lost}
	}
	return supervisor.AuditProblem{Err: err.Error(), Lost: lost}
}

// closing bounds the end of the state: a disk that does not answer must not keep the process.
func closing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Second)
}

// serveAdmin serves the admin socket in the background, once it listens.
func serveAdmin(ctx context.Context, parts *sync.WaitGroup, spec policy.AdminSpec, sup *supervisor.Supervisor, log *zap.Logger, level zap.AtomicLevel) error {
	listening, ended := make(chan struct{}), make(chan error, 1)
	parts.Go(func() {
		ended <- admin.Serve(ctx, spec.Socket, sup, admin.Options{
			Roles:     rolesOf(spec.Roles),
			Log:       logLevel{level, log, sup.NoteLogLevel},
			Listening: func() { close(listening) },
			Denied: func(d admin.Denial) {
				log.Warn("admin request denied", zap.Uint32("uid", d.UID), zap.Int("pid", d.PID), zap.String("path", d.Path))
			},
			Problem: func(text string) { log.Warn("admin socket", zap.String("problem", text)) },
		})
	})
	select {
	case <-listening:
		return nil
	case err := <-ended:
		return err
	}
}

// briefly runs a write to the log that must not keep the process from ending when nobody reads the log.
func briefly(write func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		write()
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
