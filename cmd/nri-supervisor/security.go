package main

import (
	"fmt"
	"slices"
	"strings"

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
		Long: `Security reads the configuration and the manifests, not the running service, and
shows what each plugin's process may do on this node, with the line of its
manifest that would lower it. docs/isolation.md explains the lines.`,
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
			list, err := securityOf(cfg, args)
			if err != nil {
				return err
			}
			return out.show(cmd.OutOrStdout(), list, func(b *paper) { writeSecurity(b, list) })
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "file with the Supervisor document (default "+defaultConfig+", if it exists)")
	out.add(cmd)
	return cmd
}

// securityOf lists the plugins that are started here: those named, or all. One that attaches is confined by whoever started it.
func securityOf(cfg *policy.Config, names []string) ([]pluginSecurity, error) {
	confine := newConfinements(&cfg.Supervisor)
	out := []pluginSecurity{}
	for _, p := range cfg.Plugins {
		if p.Spec.Exec == nil || len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		c, err := confine.of(p)
		if err != nil {
			return nil, fmt.Errorf("plugin %q: %w", p.Name, err)
		}
		out = append(out, pluginSecurity{p.Name, p.Team, string(p.Spec.Sandbox.Profile), freedoms(&c, isolation.Landlock())})
	}
	if len(names) > 0 && len(out) == 0 {
		return nil, hintError{fmt.Errorf("no plugin %q that is started by this configuration", names[0]), []string{"nri-supervisor check lists manifests that are wrong"}}
	}
	return out, nil
}

// freedoms are the lines of one plugin, on a kernel with a version of Landlock.
func freedoms(c *isolation.Confinement, landlock int) []freedom {
	const strict = "sandbox: {profile: strict}"
	const standard = "sandbox: {profile: standard}"
	pick := func(what string, ok bool, good, bad freedom) freedom {
		if ok {
			bad = good
		}
		bad.What = what
		return bad
	}
	caps := freedom{What: "capabilities", May: "none", Exposure: sealed}
	switch {
	case !c.CutCapabilities:
		caps = freedom{"capabilities", "all of the supervisor's", exposed, standard}
	case len(c.Capabilities) > 0:
		caps = freedom{"capabilities", strings.Join(c.Capabilities, ", "), limited, "sandbox: {capabilities: {drop: [ALL]}}"}
	}
	user := freedom{"user", "the supervisor's, usually root", exposed, "sandbox: {user: NAME}, or {profile: strict}"}
	switch {
	case c.OwnUser && c.OwnGroups != nil:
		user = freedom{"user", "one of its own" + groupsOf(c.OwnGroups), limited, "sandbox without group and supplementalGroups"}
	case c.OwnUser:
		user = freedom{What: "user", May: "one of its own", Exposure: sealed}
	case c.User != nil && c.User.UID != 0:
		user = freedom{What: "user", May: fmt.Sprintf("%d, group %d", c.User.UID, c.User.GID), Exposure: limited, Lower: strict}
	}
	files := freedom{"files", "all that its user may", exposed, standard}
	switch {
	case c.ConfineFiles:
		files = freedom{What: "files", May: "reads the system's, writes its own" + listed(c.ReadWrite), Exposure: sealed}
	case len(c.Protect) > 0:
		files = freedom{"files", "all but writing to " + c.Protect[0] + ", " + c.Protect[1] + " and the like" + listed(c.ReadWrite), limited, strict}
	}
	limit := func(what, field string, n int64, example string) freedom {
		return pick(what, n > 0, freedom{May: "limited", Exposure: sealed}, freedom{"", "no limit", exposed, "resources: {limits: {" + field + ": " + example + "}}"})
	}
	return []freedom{
		user, caps, files,
		pick("runtimes' sockets", len(c.Hide) > 0, freedom{May: "hidden", Exposure: sealed}, freedom{"", "can connect as its user may", exposed, standard}),
		pick("other processes", c.Shield, shielded(c, landlock), freedom{"", "as its user may", exposed, standard}),
		pick("system calls", c.Seccomp, freedom{May: "filtered", Exposure: sealed}, freedom{"", "all", exposed, "sandbox: {seccomp: default}, with profile standard or strict"}),
		pick("network", c.NoNetwork, freedom{May: "none", Exposure: sealed}, freedom{"", "the host's", limited, "sandbox: {network: none}"}),
		limit("memory", "memory", c.Limits.Memory, "128Mi"),
		limit("processor", "cpu", c.Limits.CPU, "500m"),
		limit("processes", "pids", c.Limits.PIDs, `64`),
		{What: "limits of each process", May: perProcess(c), Exposure: sealed},
	}
}

// groupsOf are the groups that a manifest gives to a user of the plugin's own.
func groupsOf(g *isolation.Groups) string {
	var out string
	if g.GID != nil {
		out = fmt.Sprintf(", group %d", *g.GID)
	}
	if len(g.Supplementary) > 0 {
		out += fmt.Sprintf(", groups %d", g.Supplementary)
	}
	return out
}

// shielded is what the profile's shield is worth with a version of Landlock; docs/adr says why no more can be done without scopes.
func shielded(c *isolation.Confinement, landlock int) freedom {
	const refer, scopes = 2, 6 // of Linux 5.19 and 6.12, landlock(7)
	const other = "sandbox: {profile: strict}, or {user: NAME}"
	switch {
	case slices.Contains(c.Capabilities, "SYS_ADMIN"):
		return freedom{"", "as its user may: Landlock would deny what SYS_ADMIN is for", exposed, "sandbox: {capabilities: {add: []}}"}
	case landlock >= scopes || c.OwnUser:
		return freedom{May: "no signals to them, no look into them", Exposure: sealed}
	case landlock >= refer:
		return freedom{"", "no look into them; signals to those of its user: this kernel is older than Linux 6.12", exposed, other}
	default:
		return freedom{"", "as its user may: this kernel has no Landlock, or that of before Linux 5.19", exposed, other}
	}
}

// perProcess are the limits of setrlimit(2).
func perProcess(c *isolation.Confinement) string {
	out := []string{"core 0"}
	switch {
	case c.NoFile > 0:
		out = append(out, fmt.Sprintf("nofile %d", c.NoFile))
	default:
		out = append(out, "nofile 1024, can be raised")
	}
	for _, l := range c.RLimits {
		out = append(out, fmt.Sprintf("%s %d", l.Resource, l.Value))
	}
	return strings.Join(out, ", ")
}

func listed(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return ", " + strings.Join(paths, ", ")
}

func writeSecurity(b *paper, list []pluginSecurity) {
	for i, p := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.say(0, "%s of team %s, profile %s", p.Plugin, p.Team, p.Profile)
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
