package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// version is set by the linker; see the Makefile.
var version = "devel"

// usageError is a mistake on the command line: exit code 2.
type usageError struct{ err error }

// Error returns the message.
func (e usageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.err }

// silentError is a failure that has been told already: exit code 1 and nothing more to say.
type silentError struct{}

// Error is never shown.
func (silentError) Error() string { return "failure already reported" }

// codeError is a result that has been told already and has an exit code of its own.
type codeError struct{ code int }

// Error is never shown.
func (e codeError) Error() string { return fmt.Sprintf("exit code %d, already reported", e.code) }

// hintError adds lines that say what to try.
type hintError struct {
	err   error
	hints []string
}

// Error returns the message without the hints.
func (e hintError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e hintError) Unwrap() error { return e.err }

// newRoot builds the command line.
func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "nri-supervisor",
		Short: "Host NRI plugins of many teams so that none can break a pod it did not select",
		Long: `nri-supervisor registers with the container runtime once, as one NRI plugin,
and hosts each team's plugin behind that registration: a process of its own,
only the events its selector matches, a timeout and a circuit breaker in front.
A plugin that fails becomes a no-op, and only the containers that it selected
can notice.`,
		SilenceUsage: true, SilenceErrors: true, SuggestionsMinimumDistance: 2,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if startedByRuntime() { // it passes no arguments
				return (&runFlags{logLevel: "info", logFormat: "json"}).run(cmd)
			}
			return cmd.Help()
		},
	}
	root.Version = version
	root.SetVersionTemplate(versionLine())
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newRun(), newDemo(), newVersion())
	root.AddCommand(operatorCommands()...)
	narrowHelp(root)
	return root
}

// noArgs refuses arguments, and names the command that was probably meant.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var err error
	switch {
	case !cmd.HasAvailableSubCommands():
		err = fmt.Errorf("%s: unknown argument %q", cmd.CommandPath(), args[0])
	case cmd.HasParent():
		err = fmt.Errorf("%s: unknown command %q", cmd.CommandPath(), args[0])
	default: // the program's name stands before every error
		err = fmt.Errorf("unknown command %q", args[0])
	}
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
		err = hintError{err, []string{"did you mean: " + strings.Join(s, ", ")}}
	}
	return usageError{err}
}

// seeHelp adds to a mistake on the command line where to read how the command is used.
func seeHelp(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[usageError](err); !ok {
		return err
	}
	var hints []string
	if hint, ok := errors.AsType[hintError](err); ok {
		hints = hint.hints
	}
	return hintError{err, append(slices.Clone(hints), "see: "+cmd.CommandPath()+" --help")}
}

// report writes what went wrong and returns the exit code.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	if told, ok := errors.AsType[codeError](err); ok {
		return told.code
	}
	if _, silent := errors.AsType[silentError](err); !silent {
		writeError(stderr, err)
		if hint, ok := errors.AsType[hintError](err); ok {
			for _, h := range hint.hints {
				_, _ = fmt.Fprintf(stderr, "nri-supervisor: hint: %s\n", h)
			}
		}
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

// writeError writes an error, each of its lines marked as one. Problems of the configuration come with warnings among them, which are marked as such.
func writeError(w io.Writer, err error) {
	lines := func(mark, text string) {
		for line := range strings.Lines(text) {
			_, _ = fmt.Fprintf(w, "nri-supervisor: %s: %s\n", mark, clean(strings.TrimSuffix(line, "\n")))
		}
	}
	problems, ok := errors.AsType[policy.Problems](err)
	if !ok || err.Error() != problems.Error() { // somebody has put words around them
		lines("error", err.Error())
		return
	}
	for _, p := range problems {
		mark := p.Severity.String()
		p.Severity = policy.Error // the mark says it
		lines(mark, p.Error())
	}
}

// versionLine is what version and --version print.
func versionLine() string { return "nri-supervisor " + version + "\n" }

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return write(cmd.OutOrStdout(), []byte(versionLine()))
		},
	}
}
