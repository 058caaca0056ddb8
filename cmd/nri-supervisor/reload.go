package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

func newReload() *cobra.Command {
	var at connectFlags
	var out format
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the service read its configuration again",
		Long: `Reload applies what changed in the configuration and the manifests, as the
service does by itself soon after a file changed. It returns when the plugins
that changed are in service, or cannot be, and says what was done to each. Exit
code 1: something could not be applied. A broken manifest leaves its plugin as
it was; a broken configuration file leaves everything as it was.`,
		Example: "  nri-supervisor reload",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			report, err := c.Reload(cmd.Context())
			if err != nil {
				return askedTo(err)
			}
			if err := out.show(cmd.OutOrStdout(), report, func(b *paper) { writeReload(b, report) }); err != nil {
				return err
			}
			if report.Result != "success" {
				return silentError{}
			}
			return nil
		},
	}
	at.add(cmd)
	out.add(cmd)
	return cmd
}

// writeReload is the report for people.
func writeReload(b *paper, r supervisor.ReloadReport) {
	switch {
	case r.Result == "failure":
		b.WriteString("nothing was changed: the configuration cannot be used\n")
	case len(r.Changes) == 0:
		fmt.Fprintf(b, "no plugin changed; %s as before\n", count(r.Unchanged, "plugin"))
	default:
		for _, c := range r.Changes {
			hang(b, "", noteIndent, changeLine(c))
		}
		fmt.Fprintf(b, "%s as before\n", count(r.Unchanged, "plugin"))
	}
	for _, p := range r.Problems {
		hang(b, "problem: ", noteIndent, p)
	}
	if r.MoreProblems > 0 {
		fmt.Fprintf(b, "and %s: nri-supervisor check\n", count(r.MoreProblems, "more problem"))
	}
	for _, s := range r.NeedRestart {
		hang(b, "", noteIndent, s+" changed, which needs a restart of the service: pods keep running")
	}
}

// changeLine says what a reload did to a plugin.
func changeLine(c supervisor.PluginChange) string {
	text := c.Plugin + ": " + c.Change
	if c.From != "" {
		text += " from " + c.From
	}
	switch c.How {
	case "rules":
		text += ", its process goes on"
	case "configured":
		text += ", configured in place"
	case "replaced":
		text += ", by a new process"
	}
	if c.Error != "" {
		text += "; it failed: " + c.Error
	}
	return text
}
