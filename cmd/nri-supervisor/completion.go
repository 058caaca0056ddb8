package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// completionLimit bounds what a person waits for when asking the shell to complete a name.
const completionLimit = 10 * time.Second

type completer = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// completePlugins completes the name of a plugin of the running supervisor, with its team and state beside it. Without one there is nothing to propose.
func (f *connectFlags) completePlugins(most int) completer {
	names := f.complete(func(st supervisor.Status) []string {
		var out []string
		for _, p := range st.Plugins {
			if p.Name != "" {
				out = append(out, clean(p.Name)+"\t"+clean(p.Team)+", "+clean(p.State))
			}
		}
		return out
	})
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd, args, toComplete)
	}
}

// complete completes what the status of the running supervisor has.
func (f *connectFlags) complete(names func(supervisor.Status) []string) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := f.client(io.Discard)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := cmd.Context()
		if ctx == nil { // as some shells' scripts run it
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionLimit)
		defer cancel()
		st, err := c.Status(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(st), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTeams completes the name of a team of the running supervisor's plugins.
func (f *connectFlags) completeTeams() completer {
	return f.complete(func(st supervisor.Status) []string {
		plugins := map[string][]string{}
		for _, p := range st.Plugins {
			if p.Team != "" {
				plugins[p.Team] = append(plugins[p.Team], clean(p.Name))
			}
		}
		var out []string
		for _, team := range slices.Sorted(maps.Keys(plugins)) {
			out = append(out, clean(team)+"\t"+strings.Join(plugins[team], ", "))
		}
		return out
	})
}

// completeValues completes one of a closed set.
func completeValues[T fmt.Stringer](values ...T) completer {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.String()
	}
	return completeNames(names...)
}

// completeNames is completeValues for names.
func completeNames(names ...string) completer {
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
}

// completeFlag completes the values of a flag.
func completeFlag(cmd *cobra.Command, name string, c completer) {
	if err := cmd.RegisterFlagCompletionFunc(name, c); err != nil {
		panic(err) // the flag was defined a line before
	}
}

// anyFlag is for flags, of which there may be arguments before.
const anyFlag = 1 << 10
