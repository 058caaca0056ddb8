package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/doctor"
	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

// askLimit bounds, unless a flag says otherwise, the question to the running supervisor: node-problem-detector gives a plugin five seconds by default.
const askLimit = 3 * time.Second

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
			r := examine(cmd.Context(), at, root, wait)
			if err := out.show(cmd.OutOrStdout(), r, func(b *bytes.Buffer) { writeReport(b, r) }); err != nil {
				return errors.Join(err, codeError{doctor.ExitUnknown})
			}
			return codeError{r.ExitCode()}
		},
	}
	at.add(cmd)
	out.add(cmd)
	cmd.Flags().StringVar(&root, "root", "/", "where the node's files are, for a container that has them mounted")
	cmd.Flags().DurationVar(&wait, "wait", askLimit, "how long to wait for the answer of the running supervisor")
	return cmd
}

// examine looks at the node.
func examine(ctx context.Context, at connectFlags, root string, wait time.Duration) doctor.Report {
	in := doctor.Input{SocketOf: runtimeSocketOf}
	if files, ok := os.DirFS(root).(fs.ReadLinkFS); ok {
		in.Host = doctor.Host{Files: files, Landlock: isolation.Landlock()}
	}
	path, err := configPath(at.config)
	if at.config == "" && root != "/" {
		path = filepath.Join(root, defaultConfig)
	}
	in.ConfigFile = path
	if err == nil {
		in.Config, err = policy.Load(policy.LoadOptions{ConfigFile: path, CheckFiles: true})
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
	in.Live = askLive(ctx, socket, wait)
	return doctor.Diagnose(in)
}

// runtimeSocketOf is the runtime's socket in a configuration of another supervisor; "" if it cannot be read.
func runtimeSocketOf(config string) string {
	cfg, err := policy.Load(policy.LoadOptions{ConfigFile: config, PluginPaths: []string{}})
	if err != nil {
		return ""
	}
	return cfg.Supervisor.Runtime.Socket
}

// askLive asks the running supervisor.
func askLive(ctx context.Context, socket string, wait time.Duration) doctor.Live {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c, err := admin.Dial(socket)
	if err != nil {
		return doctor.Live{Silent: err.Error(), Hint: "set --socket"}
	}
	st, err := c.Status(ctx)
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
	}
	return l
}

// writeReport is the report for people.
func writeReport(b *bytes.Buffer, r doctor.Report) {
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
