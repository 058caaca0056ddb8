package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	events   string
	protocol string
	config   string
	timeout  time.Duration
	repeat   int
	out      format
}

// verifyTimeout is the default timeout of a call, as in a manifest (policy, defaults.timeouts).
const verifyTimeout = 500 * time.Millisecond

func newVerify() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify PLUGIN [ARG]...",
		Short: "Try a plugin's binary with recorded events and say what the supervisor would find wrong",
		Long: `Verify starts the plugin as the supervisor does, configures and synchronizes
it, gives it the events in the folder, in order of their names, and stops it. It
prints a verdict for each check: handshake, configure, synchronize, events,
idempotence, timeouts, leaks, shutdown. Nothing is changed on this host but by the
plugin itself. As root it gives the plugin a cgroup of its own, so that nothing of
it survives, and else says that there is none. No profile confines it. It exits with 1 when a check fails. Record writes such events.`,
		Example: `  nri-supervisor verify ./gpu-env --events recorded
  nri-supervisor verify ./stock-plugin --protocol nri --events recorded -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("verify: name the plugin's binary")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().SetInterspersed(true)
	cmd.Flags().StringVar(&f.events, "events", "", "folder with event files, as record writes them (required)")
	cmd.Flags().StringVar(&f.protocol, "protocol", string(isolation.GoPlugin), "go-plugin for a plugin built with the SDK, nri for any other")
	cmd.Flags().StringVar(&f.config, "plugin-config", "", "file that is handed to the plugin as its configuration")
	cmd.Flags().DurationVar(&f.timeout, "timeout", verifyTimeout, "what a call may take")
	cmd.Flags().IntVar(&f.repeat, "repeat", 20, "how often the events are given again to find leaks")
	f.out.add(cmd)
	return cmd
}

// verdictOf is the outcome of one check. It is a closed set.
type verdictOf string

const (
	verdictPass verdictOf = "pass"
	verdictFail verdictOf = "fail"
	verdictSkip verdictOf = "skip"
)

// finding is one check with its verdict.
type finding struct {
	Check   string    `json:"check"`
	Verdict verdictOf `json:"verdict"`
	Detail  string    `json:"detail,omitempty"`
	// Problems are the single things that are wrong, at most maxProblems.
	Problems []string `json:"problems,omitempty"`
}

// maxProblems bounds what is listed of one check.
const maxProblems = 20

func (f *finding) problem(format string, args ...any) {
	f.Verdict = verdictFail
	if len(f.Problems) < maxProblems {
		f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
	}
}

func (f *verifyFlags) run(cmd *cobra.Command, args []string) error {
	switch {
	case f.events == "":
		return usageError{errors.New("verify: set --events to a folder with event files")}
	case f.protocol != string(isolation.GoPlugin) && f.protocol != string(isolation.NRI):
		return usageError{fmt.Errorf("verify: --protocol is %q; use go-plugin or nri", f.protocol)}
	case f.timeout <= 0 || f.repeat < 0:
		return usageError{errors.New("verify: --timeout must be above 0, --repeat not below")}
	}
	events, err := readEvents(f.events)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(args[0])
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	var config []byte
	if f.config != "" {
		if config, err = os.ReadFile(f.config); err != nil {
			return fmt.Errorf("plugin configuration: %w", err)
		}
	}
	dir, err := newTrialFolder(os.TempDir())
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer dir.remove()
	v := &verifier{
		spec: isolation.Spec{
			Name: pluginNameOf(path), Index: "00", Path: path, Args: args[1:], Protocol: isolation.Protocol(f.protocol), RunDir: dir.runDir(),
		},
		config: string(config), timeout: f.timeout, repeat: f.repeat, events: events,
	}
	host, err := v.useCgroup(os.Geteuid() == 0)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	list := v.verify(cmd.Context())
	if host != nil {
		host.Close() // which ends what the plugin left behind
	}
	err = f.out.show(cmd.OutOrStdout(), list, func(b *paper) { writeFindings(b, list) })
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(f finding) bool { return f.Verdict == verdictFail }) {
		return silentError{}
	}
	return nil
}

// pluginNameOf makes a plugin's name of a path.
func pluginNameOf(path string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, filepath.Base(path))
	return firstOf(strings.Trim(name[:min(len(name), 40)], "-"), "plugin")
}

// namedEvent is an event and the file it comes from.
type namedEvent struct {
	file string
	*recording.Event
}

// readEvents reads the event files of a folder in order of their names.
func readEvents(dir string) ([]namedEvent, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, hintError{fmt.Errorf("events: no file *.json in %q", dir), []string{"nri-supervisor record " + dir + " writes some on a live node"}}
	}
	slices.Sort(files)
	var out []namedEvent
	for _, file := range files {
		ev, err := readEvent(file)
		if err != nil {
			return nil, err
		}
		out = append(out, namedEvent{filepath.Base(file), ev})
	}
	return out, nil
}

func writeFindings(b *paper, list []finding) {
	for _, f := range list {
		fmt.Fprintf(b, "%-4s  %-11s  %s\n", f.Verdict, f.Check, clean(f.Detail))
		for _, p := range f.Problems {
			fmt.Fprintf(b, "        %s\n", clean(p))
		}
	}
}

// useCgroup has the plugin run in a cgroup of its own, as the service has it, if root asks and this machine can: nothing of it survives the trial then. The
// caller closes the host.
func (v *verifier) useCgroup(root bool) (*isolation.Host, error) {
	if !root {
		v.lacks = "without a cgroup of its own, which takes root"
		return nil, nil
	}
	host, err := isolation.OpenHost(isolation.HostOptions{RunDir: v.spec.RunDir, Helper: []string{helperCommand}, NoLimits: true})
	if err != nil {
		return nil, err
	}
	v.spec.Host = host
	v.spec.Confine = isolation.Confinement{Cgroup: true, Optional: []isolation.Part{isolation.PartCgroup}}
	return host, nil
}

// startLimit bounds the start of the plugin: the default of a manifest.
const startLimit = 10 * time.Second

func (v *verifier) start(ctx context.Context) (finding, *isolation.Instance) {
	f := finding{Check: "handshake", Verdict: verdictPass}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	begin := time.Now()
	i, err := isolation.Start(ctx, v.spec)
	if err != nil {
		f.problem("%v", err)
		if se, ok := errors.AsType[*isolation.StartError](err); ok {
			for _, line := range se.Exit.LastOutput {
				f.problem("it wrote: %s", line)
			}
		}
		return f, nil
	}
	f.Detail = fmt.Sprintf("registered in %s by protocol %s", time.Since(begin).Round(time.Millisecond), v.spec.Protocol)
	if missing := i.Reduced(); len(missing) > 0 {
		v.lacks = "without " + strings.Join(missing, "; ")
	}
	if v.lacks != "" {
		f.Detail += ", " + v.lacks
	}
	return f, i
}
