// Command bench measures the supervisor against the stock NRI: the same plugin binaries as processes, once directly on NRI's own adaptation and once below the supervisor on that
// same adaptation, in one run and in turns.
//
// This process is the container runtime of every side; plugins and supervisor are processes of their own. Without a flag it measures everything that docs/performance.md tells;
// with -gate only the ratios that have a bar, and fails if one is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	plugin, supervisor string // binaries
	out                io.Writer
	nursery            nursery
	sides              []*side
	floors             []*floor
	report             report
	rounds             int // of each measurement, if not 0
	began              time.Time
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	supervisor := flags.String("supervisor", "", "the supervisor's binary; empty: build it")
	gate := flags.Bool("gate", false, "only what has a bar; fail if one is missed")
	only := flags.String("only", "", "only the part, or with -gate the bar, with this name")
	times := flags.Int("rounds", 0, "rounds of each measurement; 0: as many as it needs")
	against := flags.String("against", "", "another supervisor's binary, to measure a change: only compare the two")
	dir := flags.String("o", "", "folder for results.json and performance.svg; empty: none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "nribench-bin")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	b := &bench{out: out, nursery: newNursery(), supervisor: *supervisor, began: time.Now()}
	defer close(b.nursery)
	if b.plugin, err = build(ctx, tmp, "test/bench/plugin"); err != nil {
		return err
	}
	if b.supervisor == "" {
		b.supervisor, err = build(ctx, tmp, "cmd/nri-supervisor")
	} else {
		b.supervisor, err = filepath.Abs(b.supervisor)
	}
	if err != nil {
		return err
	}
	quiet()
	b.report.Machine = thisMachine()
	defer b.closeSides()
	b.rounds = *times
	if *against != "" {
		other, err := filepath.Abs(*against)
		if err != nil {
			return err
		}
		return b.compare(ctx, other)
	}
	if *gate {
		return b.gate(ctx, *only)
	}
	return errors.Join(b.all(ctx, *only), b.report.write(*dir, out))
}

// times is how many rounds a measurement has that needs so many.
func (b *bench) times(needed int) int {
	if b.rounds > 0 {
		return b.rounds
	}
	return needed
}

// closeSides ends everything that was started.
func (b *bench) closeSides() {
	for _, s := range b.sides {
		s.close()
	}
	for _, f := range b.floors {
		f.close()
	}
	b.sides, b.floors = nil, nil
}

// build builds a program of the module as it is released: static, without the race detector.
func build(ctx context.Context, dir, pkg string) (string, error) {
	const module = "github.com/nri-supervisor/nri-supervisor/"
	out := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", out, module+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, msg)
	}
	return out, nil
}
