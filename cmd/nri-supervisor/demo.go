package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

const (
	// demoLeast is the shortest stream: below it a p99 is not worth its name.
	demoLeast = 300
	// demoMost bounds the stream, whose containers all live in memory.
	demoMost = 100_000
	// demoRateMost is the most containers a second that a simulated node of two cores keeps up with.
	demoRateMost = 200
	// demoRounds is how often the stream is measured at most, without and with the broken plugins. A second time is there for one case only: waits were too long, and nothing
	// else is wrong. On a busy machine that happens by itself; what the plugins cause, they cause both times.
	demoRounds = 2
	// demoOverhead is what a round may take beside its two streams before the demo is given up: starts, recovery and stops, with much room.
	demoOverhead = time.Minute
)

// demoWithout is what of the product is switched off, to see a promise break. It is a closed set and a flag's value.
type demoWithout string

const (
	demoAll             demoWithout = ""
	demoWithoutGuard    demoWithout = "guard"
	demoWithoutSelector demoWithout = "selector"
)

// String returns the value of the flag.
func (w *demoWithout) String() string { return string(*w) }

// Type names the flag's values in the help text.
func (w *demoWithout) Type() string { return "guard|selector" }

// Set takes the value of the flag.
func (w *demoWithout) Set(s string) error {
	switch demoWithout(s) {
	case demoWithoutGuard, demoWithoutSelector:
		*w = demoWithout(s)
		return nil
	case demoAll:
	}
	return errors.New("use guard or selector")
}

// demoFlags are the flags of demo.
type demoFlags struct {
	containers int
	rate       float64
	seed       uint64
	without    demoWithout
	output     format
}

func newDemo() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See three teams' plugins share a node, two of them broken; needs no container runtime and no root",
		Long: `Demo shows the point in half a minute. It runs a simulated container runtime
(NRI's own adaptation, in a process of its own), this supervisor as in
production, and the plugins of three teams as its subprocesses: gpu-env works,
net-tuner hangs on its pods, vol-audit crashes on its pods. A stream of
containers passes through twice, first without the two broken plugins, then
with them; in the middle of the second time they break, and after a while they
are mended. In the end both are compared, promise by promise:

  blast radius             containers that no broken plugin selected notice
                           nothing
  never late, never lost   the runtime always gets its answer in time; plugins
                           that come back are told the true state
  never silent             each piece of work that is missing is told in
                           metrics, log, record and on the container

It exits with 1 when a promise is broken. To see that happen, switch off a part
of the product: --without guard attaches the broken plugins to the runtime
itself, as without nri-supervisor; --without selector lets them see every
container.

Everything lives in a private temporary folder, which is removed in the end.
Nothing of this machine's own runtime is touched.`,
		Example: `  nri-supervisor demo
  nri-supervisor demo --without guard`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return usageError{err}
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.containers, "containers", 320, fmt.Sprintf("length of the stream, from %d", demoLeast))
	flags.Float64Var(&f.rate, "rate", 55, fmt.Sprintf("containers a second, up to %d", demoRateMost))
	flags.Uint64Var(&f.seed, "seed", 1, "the same seed makes the same stream")
	flags.Var(&f.without, "without", "see it break: switch off a part of the product")
	f.output.add(cmd)
	cmd.AddCommand(newDemoRuntime(), newDemoPlugin())
	return cmd
}

func (f *demoFlags) check() error {
	switch {
	case f.containers < demoLeast || f.containers > demoMost:
		return fmt.Errorf("--containers %d is not between %d and %d", f.containers, demoLeast, demoMost)
	case !(f.rate >= 1 && f.rate <= demoRateMost): // also NaN
		return fmt.Errorf("--rate %g is not between 1 and %d containers a second", f.rate, demoRateMost)
	}
	return nil
}

// run carries out the demo and prints what came of it.
func (f *demoFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	tell := func(format string, args ...any) { _, _ = fmt.Fprintf(stderr, format+"\n", args...) } // progress, which nobody needs
	if f.output == formatJSON {
		tell = func(string, ...any) {}
	}
	limit := demoRounds * (time.Duration(2*float64(f.containers)/f.rate*float64(time.Second)) + demoOverhead)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := f.conduct(limited, tell)
	switch {
	case ctx.Err() != nil:
		return errors.New("demo: interrupted; everything that it started has ended")
	case err != nil:
		return fmt.Errorf("demo: %w", err)
	}
	if err := f.output.show(stdout, result, func(b *paper) {
		b.width = usualWidth // its tables are as wide as that, wherever they go
		writeDemo(b, result)
	}); err != nil {
		return err
	}
	return result.verdict()
}

// conduct runs rounds in a folder of their own until one is not spoilt by a busy machine.
func (f *demoFlags) conduct(ctx context.Context, tell func(string, ...any)) (_ *demoResult, err error) {
	began := time.Now()
	dir, err := demoFolder()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	nursery, err := newDemoNursery()
	if err != nil {
		return nil, err
	}
	defer nursery.close()
	for round := 1; ; round++ {
		r, err := f.round(ctx, nursery, filepath.Join(dir, strconv.Itoa(round)), tell)
		if err != nil {
			return nil, err
		}
		if r.onlySlow && f.without == demoAll && round < demoRounds {
			tell("%s\nthis may be the machine and not the plugins; both are measured again", r.verdict())
			continue
		}
		r.Seed, r.Without, r.Rounds, r.Seconds = f.seed, string(f.without), round, time.Since(began).Round(time.Millisecond).Seconds()
		return r, nil
	}
}

// round runs the stream without the broken plugins and with them, and compares.
func (f *demoFlags) round(ctx context.Context, nursery *demoNursery, dir string, tell func(string, ...any)) (*demoResult, error) {
	tell("%d containers without the broken plugins (seed %d)", f.containers, f.seed)
	base := &demoPass{
		place: demoPlace{filepath.Join(dir, "a")}, hosted: []demoPlugin{demoGPU()},
		pods: demoStream(f.seed, f.containers, f.rate), tell: tell,
	}
	if err := base.run(ctx, nursery); err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	tell("the same %d containers with them", f.containers)
	pass := &demoPass{
		place: demoPlace{filepath.Join(dir, "b")}, hosted: demoPlugins(), selectAll: f.without == demoWithoutSelector,
		pods: demoStream(f.seed, f.containers, f.rate), tell: tell,
	}
	if f.without == demoWithoutGuard {
		pass.hosted, pass.direct = []demoPlugin{demoGPU()}, demoBroken()
	}
	if err := pass.run(ctx, nursery); err != nil {
		return nil, err
	}
	return judgeDemo(base, pass)
}
