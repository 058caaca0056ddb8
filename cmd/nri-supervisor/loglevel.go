package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

// logLevel is the level of the running service's log. Safe for concurrent use.
type logLevel struct {
	level zap.AtomicLevel
	log   *zap.Logger
	// note records who set it; nil: nobody does.
	note func(level string, uid uint32)
}

// Level returns it.
func (l logLevel) Level() string { return l.level.String() }

// SetLevel sets it, and says so in the log, at a level that is written.
func (l logLevel) SetLevel(text string, uid uint32) error {
	to, err := parseLevel(text)
	if err != nil {
		return fmt.Errorf("level %w", err)
	}
	from := l.level.Level()
	l.level.SetLevel(to)
	if l.note != nil {
		l.note(to.String(), uid)
	}
	go l.log.Log(max(to, zap.InfoLevel), "log level changed", zap.Stringer("from", from), zap.Stringer("to", to), zap.Uint32("uid", uid)) // nobody waits for a log
	return nil
}

func newLogLevel() *cobra.Command {
	var at connectFlags
	var out format
	cmd := &cobra.Command{
		Use:   "log-level [LEVEL]",
		Short: "Show the level of the service's log, or change it while it runs",
		Long: `Log-level shows the lowest level that the service writes to its log, or sets it
to debug, info, warn or error. It holds until the service ends, which starts
with --log-level again.`,
		Example: `  nri-supervisor log-level
  nri-supervisor log-level debug`,
		ValidArgs: levels(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("log-level: %d arguments: name one level, or none to see it", len(args))}
			}
			if len(args) == 1 {
				if _, err := parseLevel(args[0]); err != nil {
					return usageError{fmt.Errorf("log-level: %w", err)}
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			ask := c.LogLevel
			if len(args) == 1 {
				ask = func(ctx context.Context) (admin.LogLevelBody, error) { return c.SetLogLevel(ctx, args[0]) }
			}
			reply, err := ask(cmd.Context())
			switch {
			case err != nil && len(args) == 1:
				return askedTo(err)
			case err != nil:
				return asked(err)
			}
			return out.show(cmd.OutOrStdout(), reply, func(b *paper) { fmt.Fprintf(b, "log level %s\n", clean(reply.Level)) })
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// levels are the names of the levels.
func levels() []string { return []string{"debug", "info", "warn", "error"} }
