package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// completionLimit bounds what a person waits for when asking the shell to complete a name.
const completionLimit = 10 * time.Second

type completer = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// completePlugins completes the name of a plugin of the running supervisor, with its team and state beside it. Without one there is nothing to propose.
func (f *connectFlags) completePlugins(most int) completer {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
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
		var names []string
		for _, p := range st.Plugins {
			if p.Name != "" {
				names = append(names, clean(p.Name)+"\t"+clean(p.Team)+", "+clean(p.State))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag completes the values of a flag.
func completeFlag(cmd *cobra.Command, name string, c completer) {
	if err := cmd.RegisterFlagCompletionFunc(name, c); err != nil {
		panic(err) // the flag was defined a line before
	}
}

// anyFlag is for flags, of which there may be arguments before.
const anyFlag = 1 << 10
