package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// recordFlags are the flags of record.
type recordFlags struct {
	at     connectFlags
	filter supervisor.RecordFilter
	during time.Duration
	count  int
}

func newRecord() *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record DIR",
		Short: "Write the events of this node into files, for explain --event and verify",
		Long: `Record writes the pods and containers that are known now, and then each event
of the runtime, into files in the folder, one event a file, until it is
interrupted. The values of environment variables are taken out, and those of
annotations and arguments that sound or look like a secret; look at the files
before you give them away. --with-values leaves them in and needs the role admin.`,
		Example: `  nri-supervisor record events --namespace ml-train --for 1m
  nri-supervisor record events --pod job-1 --count 10`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("record: name the folder for the files")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&f.filter.Namespace, "namespace", "", "only pods of this namespace")
	cmd.Flags().StringVar(&f.filter.Pod, "pod", "", "only pods of this name")
	cmd.Flags().BoolVar(&f.filter.Values, "with-values", false, "leave the values of variables and secrets in")
	cmd.Flags().DurationVar(&f.during, "for", 0, "end after this time (default: when interrupted)")
	cmd.Flags().IntVar(&f.count, "count", 0, "end after so many events, the first state not counted (default: no limit)")
	f.at.add(cmd)
	return cmd
}

// errEnough ends a recording.
var errEnough = errors.New("enough")

func (f *recordFlags) run(cmd *cobra.Command, dir string) error {
	if f.during < 0 || f.count < 0 {
		return usageError{errors.New("record: --for and --count must not be below 0")}
	}
	c, err := f.at.client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	ctx, cancel := cmd.Context(), context.CancelFunc(func() {})
	if f.during > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.during)
	}
	defer cancel()
	n, events := 0, 0
	var lost uint64
	err = c.Record(ctx, f.filter, func(ev *recording.Event, missing uint64) error {
		lost += missing
		if err := writeEvent(dir, n, ev); err != nil {
			return err
		}
		n++
		if ev.Name != "Synchronize" {
			events++
		}
		if f.count > 0 && events >= f.count {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) && ctx.Err() == nil {
		return asked(err)
	}
	if n == 0 {
		return hintError{errors.New("record: nothing came before the end"), []string{"nri-supervisor status says whether the service runs"}}
	}
	text := fmt.Sprintf("%d events in %s, after the state in %s\n", events, dir, eventFile(0, &recording.Event{Name: "Synchronize"}))
	if lost > 0 {
		text += fmt.Sprintf("%d events are missing: this client was too slow\n", lost)
	}
	return write(cmd.OutOrStdout(), []byte(text))
}

// eventFile is the name of the nth file.
func eventFile(n int, ev *recording.Event) string {
	parts := []string{fmt.Sprintf("%06d-%s", n, ev.Name)}
	for _, part := range []string{ev.Pod.GetNamespace(), ev.Pod.GetName(), ev.Container.GetName()} {
		if part != "" {
			parts = append(parts, strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
					return r
				}
				return '_'
			}, part[:min(len(part), 40)]))
		}
	}
	return strings.Join(parts, "-") + ".json"
}

// writeEvent writes one file; one that is there already is not overwritten.
func writeEvent(dir string, n int, ev *recording.Event) error {
	data, err := ev.Encode()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, eventFile(n, ev))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		err = fmt.Errorf("record: %w", err)
		if errors.Is(err, fs.ErrExist) {
			return hintError{err, []string{"name a new folder"}}
		}
		return err
	}
	_, err = file.Write(append(data, '\n'))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}
