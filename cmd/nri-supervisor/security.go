package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// exposure says how much harm a freedom could do. It is a closed set.
type exposure string

const (
	exposed exposure = "exposed" // the node, or other plugins
	limited exposure = "limited" // something of the host, in bounds
	sealed  exposure = "sealed"
)

// freedom is one thing that a plugin may do or not, and the line of its manifest that would lower it.
type freedom struct {
	What     string   `json:"what"`
	May      string   `json:"may"`
	Exposure exposure `json:"exposure"`
	Lower    string   `json:"lower,omitempty"`
}

// pluginSecurity is what one plugin may do.
type pluginSecurity struct {
	Plugin   string    `json:"plugin"`
	Team     string    `json:"team"`
	Profile  string    `json:"profile"`
	Freedoms []freedom `json:"freedoms"`
}

func newSecurity() *cobra.Command {
	var config string
	var out format
	cmd := &cobra.Command{
		Use:   "security [PLUGIN]",
		Short: "Show what each plugin's process may still do, and what would lower it",
		Long: `Security reads the configuration and the manifests, and shows what each plugin's
process may do on this node, with the line of its manifest that would lower it.
If the service runs, it is asked what this host could not apply for a plugin's
process. docs/isolation.md explains the lines.`,
		Example: `  nri-supervisor security
  nri-supervisor security gpu-env -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("security: %d arguments: name one plugin, or none for all", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := configPath(config)
			if err != nil {
				return err
			}
			cfg, err := policy.Load(policy.LoadOptions{ConfigFile: path})
			if err != nil {
				return err
			}
			list, err := securityOf(cfg, path, args)
			if err != nil {
				return err
			}
			tellReduced(cmd.Context(), cfg.Supervisor.Admin.Socket, list)
			return out.show(cmd.OutOrStdout(), list, func(b *paper) { writeSecurity(b, list) })
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "file with the Supervisor document (default "+defaultConfig+", if it exists)")
	out.add(cmd)
	return cmd
}

// securityOf lists the plugins that are started here: those named, or all. One that attaches is confined by whoever started it.
func securityOf(cfg *policy.Config, file string, names []string) ([]pluginSecurity, error) {
	confine := confinementsOf(cfg, file, newLooks())
	out := []pluginSecurity{}
	for _, p := range cfg.Plugins {
		if p.Spec.Exec == nil || len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		c, err := confine.of(p)
		if err != nil {
			return nil, fmt.Errorf("plugin %q: %w", p.Name, err)
		}
		list := freedoms(&c, isolation.Landlock())
		if u := unsettledOf(cfg, p, confine); u != nil {
			list = append(list, u.freedom())
		}
		out = append(out, pluginSecurity{p.Name, p.Team, string(p.Spec.Sandbox.Profile), list})
	}
	if len(names) > 0 && len(out) == 0 {
		return nil, hintError{fmt.Errorf("no plugin %q that is started by this configuration", names[0]), []string{"nri-supervisor check lists manifests that are wrong"}}
	}
	return out, nil
}

// summary counts the freedoms, the worst first.
func summary(list []freedom) string {
	count := map[exposure]int{}
	for _, f := range list {
		count[f.Exposure]++
	}
	return fmt.Sprintf("%d %s, %d %s, %d %s", count[exposed], exposed, count[limited], limited, count[sealed], sealed)
}

func writeSecurity(b *paper, list []pluginSecurity) {
	for i, p := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.say(0, "%s of team %s, profile %s: %s", p.Plugin, p.Team, p.Profile, summary(p.Freedoms))
		t := table{head: []string{"WHAT", "EXPOSURE", "MAY"}}
		for _, f := range p.Freedoms {
			var notes []string
			if f.Lower != "" {
				notes = []string{"lower it: " + f.Lower}
			}
			t.row(notes, f.What, string(f.Exposure), f.May)
		}
		t.render(b)
	}
	if len(list) == 0 {
		b.WriteString("no plugin is started by this configuration\n")
	}
}
