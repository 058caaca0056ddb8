package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/doctor"
	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

// askLimit bounds, unless a flag says otherwise, the question to the running supervisor: node-problem-detector gives a plugin five seconds by default.
const askLimit = 3 * time.Second

// lookLimit bounds, with the question to the supervisor, the whole diagnosis: no disk that works takes longer for files of that size.
const lookLimit = 30 * time.Second

// longestWait bounds --wait: longer than any boot takes.
const longestWait = 10 * time.Minute

func newDoctor() *cobra.Command {
	var at connectFlags
	var out format
	var root string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong on this node, and say how to mend it",
		Long: `Doctor looks at the configuration, the runtime's own configuration and socket,
the kernel, and the running supervisor, and says of each what is wrong, where,
and how to mend it. It changes nothing. It exits with 0 when nothing is wrong,
1 for a problem, and 2 when something that matters could not be seen, so that
node-problem-detector can run it; the first line is the summary.`,
		Example: `  nri-supervisor doctor
  nri-supervisor doctor -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait <= 0 || wait > longestWait {
				return usageError{hintError{fmt.Errorf("doctor: --wait %s is not above zero and at most %s", wait, longestWait), []string{"write --wait 3s"}}}
			}
			q := question{wait: wait, patient: cmd.Flags().Changed("wait")}
			r, err := inTime(cmd.Context(), wait+lookLimit, func(ctx context.Context) (doctor.Report, error) {
				if info, err := os.Stat(root); err != nil || !info.IsDir() {
					return doctor.Report{}, fmt.Errorf("doctor: nothing can be seen: --root %q is no folder: name the one where the node's files are mounted", root)
				}
				return examine(ctx, at, root, q), nil
			})
			if err != nil {
				writeError(cmd.ErrOrStderr(), err)
				return codeError{doctor.ExitUnknown}
			}
			if err := out.show(cmd.OutOrStdout(), r, func(b *paper) { writeReport(b, r) }); err != nil {
				return errors.Join(err, codeError{doctor.ExitUnknown})
			}
			return codeError{r.ExitCode()}
		},
	}
	at.add(cmd)
	out.add(cmd)
	cmd.Flags().StringVar(&root, "root", "/", "where the node's files are, for a container that has them mounted")
	cmd.Flags().DurationVar(&wait, "wait", askLimit, "how long to wait for the answer of the running supervisor; if given, also for its socket to appear")
	return cmd
}

// inTime returns what look finds, or its error. Reading a file cannot be interrupted: when the limit is over, or ctx ends, look is left to itself and the error says so.
func inTime(ctx context.Context, limit time.Duration, look func(context.Context) (doctor.Report, error)) (doctor.Report, error) {
	type result struct {
		report doctor.Report
		err    error
	}
	found := make(chan result, 1)
	go func() {
		r, err := look(ctx)
		found <- result{r, err}
	}()
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case r := <-found:
		if ctx.Err() == nil {
			return r.report, r.err
		}
	case <-over.C:
		return doctor.Report{}, fmt.Errorf("look at the node: not done within %s: a file system or a device may hang", limit)
	case <-ctx.Done():
	}
	return doctor.Report{}, errors.New("look at the node: interrupted before all was seen")
}

// examine looks at the node.
func examine(ctx context.Context, at connectFlags, root string, q question) doctor.Report {
	in := doctor.Input{SocketOf: func(config string) string { return runtimeSocketOf(filepath.Join(root, config)) }}
	if files, ok := os.DirFS(root).(fs.ReadLinkFS); ok {
		in.Host = doctor.Host{Files: files, Landlock: isolation.Landlock()}
	}
	path, err := configPath(at.config)
	if at.config == "" && root != "/" {
		path, err = filepath.Join(root, defaultConfig), nil
		if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
			path = "" // the built-in defaults, as on the node itself
		}
	}
	in.ConfigFile = path
	if abs, absErr := filepath.Abs(path); path != "" && absErr == nil {
		in.ConfigFile = abs
	}
	if err == nil {
		in.Config, err = loadBelow(root, path)
	}
	in.ConfigErr = err
	socket := at.socket
	if socket == "" {
		socket = defaultSocket
		if in.Config != nil {
			socket = in.Config.Supervisor.Admin.Socket
		}
		socket = filepath.Join(root, socket)
	}
	if in.Live = q.ask(ctx, socket); at.socket != "" {
		in.AdminSocket = at.socket
		if abs, err := filepath.Abs(at.socket); err == nil {
			in.AdminSocket = abs
		}
	}
	return doctor.Diagnose(in)
}

// loadBelow reads the configuration and the manifests of a node whose files are below root. The files that manifests name are looked at only on the node itself.
func loadBelow(root, path string) (*policy.Config, error) {
	o := policy.LoadOptions{ConfigFile: path, CheckFiles: root == "/", Looks: newLooks()}
	if root == "/" {
		return policy.Load(o)
	}
	o.PluginPaths = []string{} // first without the manifests, since only the configuration says where they are
	cfg, err := policy.Load(o)
	if err != nil {
		return nil, err
	}
	for _, dir := range cfg.Supervisor.PluginDirs {
		if filepath.IsAbs(dir) {
			dir = filepath.Join(root, dir)
		} else {
			dir = filepath.Join(filepath.Dir(path), dir)
		}
		if _, err := os.Stat(dir); path == "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		o.PluginPaths = append(o.PluginPaths, dir)
	}
	return policy.Load(o)
}

// runtimeSocketOf is the runtime's socket in a configuration of another supervisor; "" if it cannot be read.
func runtimeSocketOf(config string) string {
	cfg, err := policy.Load(policy.LoadOptions{ConfigFile: config, PluginPaths: []string{}})
	if err != nil {
		return ""
	}
	return cfg.Supervisor.Runtime.Socket
}

// question is how the running supervisor is asked.
type question struct {
	wait    time.Duration // for the answer
	patient bool          // also for the socket to appear, as after a boot
}

// retryEvery is how often a socket is looked for that is not there yet.
const retryEvery = 100 * time.Millisecond

// status asks until there is an answer or the time is over.
func (q question) status(asking context.Context, c *admin.Client) (supervisor.Status, error) {
	again := time.NewTicker(retryEvery)
	defer again.Stop()
	var absent error // why nobody was reached the last time
	for {
		st, err := c.Status(asking)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
			absent = err
		case err != nil && asking.Err() != nil: // the time was over, maybe before anybody was asked
			if _, statErr := os.Stat(c.Socket()); absent == nil && errors.Is(statErr, fs.ErrNotExist) {
				absent = fmt.Errorf("connect to %q: there is no such socket", c.Socket())
			}
			return st, cmp.Or(absent, err)
		default:
			return st, err
		}
		if !q.patient {
			return st, absent
		}
		select {
		case <-again.C:
		case <-asking.Done():
			return st, absent
		}
	}
}

// ask asks the running supervisor.
func (q question) ask(ctx context.Context, socket string) doctor.Live {
	asking, cancel := context.WithTimeout(ctx, q.wait)
	defer cancel()
	c, err := admin.Dial(socket)
	if err != nil {
		return doctor.Live{Silent: err.Error(), Hint: "set --socket"}
	}
	st, err := q.status(asking, c)
	if req, ok := errors.AsType[*admin.RequestError](err); ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || ok && req.Timeout()) { // a socket that nobody listens on refuses at once
		text := fmt.Sprintf("it runs and does not answer in %s", q.wait)
		if ok {
			text = req.Message
		}
		return doctor.Live{Silent: text, Hint: c.Stuck() + "; systemctl restart nri-supervisor replaces it, and pods keep running"}
	}
	if err != nil {
		l := doctor.Live{Silent: err.Error(), Denied: errors.Is(err, fs.ErrPermission)}
		if req, ok := errors.AsType[*admin.RequestError](err); ok {
			l.Denied = l.Denied || req.Status == http.StatusForbidden
			l.Hint = strings.Join(req.Hints, "; ")
		}
		return l
	}
	r := st.Runtime
	l := doctor.Live{
		Connected: r.Connected, Reason: r.Reason, Why: r.Error, Remedy: r.Hint, Runtime: r.Name, Version: r.Version, NRIVersion: r.NRIVersion, Bypass: st.Bypass != nil,
	}
	if d, err := time.ParseDuration(r.RequestTimeout); err == nil {
		l.RequestTimeout = d
	}
	for _, p := range st.Plugins {
		if disabled(p) {
			l.Disabled = append(l.Disabled, p.Name)
		}
		if off := disabled(p) || p.Breaker.State == breaker.StateForcedOpen.String(); !inService(p) && p.Name != "" && (!off || p.FailsClosed) {
			l.Out = append(l.Out, doctor.Outage{Plugin: p.Name, State: notServing(p), FailsClosed: p.FailsClosed})
		}
		for _, r := range p.RefusedBy {
			if ago := time.Since(r.At); ago < statuspage.Lately && r.Reason != breaker.OutcomeRejected.String() { // to refuse on purpose is a plugin's work
				l.Refusals = append(l.Refusals, doctor.Refusal{Plugin: p.Name, Reason: r.Reason, Count: r.Count, Ago: ago})
			}
		}
	}
	if ago := time.Since(st.RefusedUnhostedAt); ago < statuspage.Lately {
		l.Refusals = append(l.Refusals, doctor.Refusal{Reason: supervisor.ReasonRequired, Count: st.RefusedUnhosted, Ago: ago})
	}
	return l
}

// notServing is what a plugin is instead of being in service.
func notServing(p supervisor.PluginStatus) string {
	switch {
	case p.Awaited != "":
		return "nobody is connected"
	case p.State == plugin.Ready.String():
		return "breaker " + p.Breaker.State
	default:
		return p.State
	}
}

// writeReport is the report for people.
func writeReport(b *paper, r doctor.Report) {
	b.WriteString(r.Summary() + "\n\n")
	for _, f := range r.Findings {
		wrap(b, fmt.Sprintf("%-8s %-12s ", f.Result, f.Check), f.What)
		if f.Result == doctor.OK {
			continue
		}
		lines := fields{b, len("    where: ")}
		lines.line("    where:", f.Where)
		lines.line("    value:", f.Value)
		lines.line("    mend:", f.Mend)
	}
}
