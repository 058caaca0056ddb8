package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

// bypassFlags are the flags of bypass.
type bypassFlags struct {
	duration string
	off      bool
}

func newBypass() *cobra.Command {
	var at connectFlags
	var out format
	var f bypassFlags
	cmd := &cobra.Command{
		Use:   "bypass (--for DURATION | --off)",
		Short: "Make the whole supervisor a no-op for a while",
		Long: `Bypass keeps every plugin from being called, as if none were there, and ends by
itself. The registration with the runtime stays. What the plugins would have
done is recorded as missed, with reason bypass.`,
		Example: `  nri-supervisor bypass --for 10m
  nri-supervisor bypass --off`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := f.parse()
			if err != nil {
				return err
			}
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			before, err := look(cmd.Context(), c)
			if err != nil {
				return err
			}
			reply, err := c.Bypass(cmd.Context(), d)
			if err != nil {
				return askedTo(err)
			}
			return out.show(cmd.OutOrStdout(), reply, func(b *paper) { writeBypass(b, before, reply) })
		},
	}
	cmd.Flags().StringVar(&f.duration, "for", "", "how long, such as 10m or 1h30m; at most 24h")
	cmd.Flags().BoolVar(&f.off, "off", false, "end the bypass now")
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// parse returns how long; 0 for --off.
func (f *bypassFlags) parse() (time.Duration, error) {
	wrong := func(format string, args ...any) error {
		return usageError{hintError{fmt.Errorf(format, args...), []string{"write --for 10m, at most 24h, or --off to end a bypass"}}}
	}
	switch {
	case f.off && f.duration != "":
		return 0, wrong("bypass: --for and --off exclude each other")
	case f.off:
		return 0, nil
	case f.duration == "":
		return 0, wrong("bypass: for how long is not said")
	}
	d, err := time.ParseDuration(f.duration)
	switch {
	case err != nil:
		return 0, wrong("bypass: --for %q is no duration", f.duration)
	case d <= 0:
		return 0, wrong("bypass: --for %s is not above zero", d)
	case d > admin.MaxBypass:
		return 0, wrong("bypass: --for %s is more than %s", d, admin.MaxBypass)
	}
	return d, nil
}

// writeBypass confirms. A bypass of a moment can be over before the reply was made: reply.Until is nil then, too. before is the status before, since right after a bypass
// every plugin is told the state, and is out of service for that moment; nil when it is not known.
func writeBypass(b *paper, before *supervisor.Status, reply admin.BypassReply) {
	if reply.Until == nil && before == nil {
		b.WriteString("bypass is off\n")
		return
	}
	if reply.Until == nil {
		text := "bypass is off: "
		if before.Bypass == nil {
			text = "no bypass was on: "
		}
		out := 0
		for _, p := range before.Plugins {
			if !inService(p) {
				out++
			}
		}
		switch {
		case len(before.Plugins) == 0:
			text += "no plugin is loaded"
		case out == 0:
			text += "plugins are called"
		default:
			text += fmt.Sprintf("plugins are called, but %d of %d %s not in service: nri-supervisor status", out, len(before.Plugins), isAre(out))
		}
		b.WriteString(text + "\n")
		return
	}
	fmt.Fprintf(b, "bypass until %s: no plugin is called; end it: nri-supervisor bypass --off\n", stamp(*reply.Until))
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
