// Command nri-supervisor hosts NRI plugins of many teams behind one registration with the container runtime.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// Exit codes, as for systemd and for scripts.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// helperCommand is the argument with which this program calls itself; it is for nobody else and in no help.
const helperCommand = "helper"

func main() {
	if args := os.Args[1:]; len(args) > 0 && args[0] == helperCommand {
		os.Exit(isolation.RunHelper(args[1:])) // before anything that costs time: each start of a plugin waits for it
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)                         // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr)) //nolint:gocritic // nothing is left to defer for
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newRoot(stdout, stderr) //nolint:contextcheck // cobra hands ctx to the commands
	cmd.SetArgs(args)
	ran, err := cmd.ExecuteContextC(ctx)
	return report(seeHelp(ran, err), stderr)
}
