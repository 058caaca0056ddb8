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

// checkFlags are the flags of check.
type checkFlags struct {
	config string
	output format
}

func newCheck() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check [DIR|FILE]...",
		Short: "Validate the configuration and the plugin manifests without running anything",
		Long: `Check reads the Supervisor document, and the Plugin manifests in the folders
and files given or in the configuration's pluginDirs. It prints each mistake on
a line of its own: file, line, field, what is wrong and what to write instead.
Warnings are marked and refuse nothing. It exits with 1 when there is a mistake.`,
		Example: `  nri-supervisor check
  nri-supervisor check --config config.yaml plugins.d/gpu-env.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := configPath(f.config)
			if err != nil {
				return err
			}
			return f.check(cmd.OutOrStdout(), cmd.ErrOrStderr(), path, args)
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "file with the Supervisor document (default "+defaultConfig+", if it exists)")
	f.output.add(cmd)
	return cmd
}

// checkReport is what `check -o json` prints.
type checkReport struct {
	// Config is the configuration file; empty for the built-in defaults.
	Config string `json:"config"`
	// Usable says whether the Supervisor document can be used; if not, no plugin was judged by it.
	Usable bool `json:"usable"`
	// Valid are the names of the valid plugins in calling order, Invalid counts the manifests that cannot be used.
	Valid    []string       `json:"valid"`
	Invalid  int            `json:"invalid"`
	Problems []checkProblem `json:"problems"`
}

// checkProblem is one problem of a checkReport. Line is 0 when the file as a whole is meant.
type checkProblem struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Field    string `json:"field,omitempty"`
	Plugin   string `json:"plugin,omitempty"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Remedy   string `json:"remedy,omitempty"`
}

// check validates and prints. An empty config means the built-in defaults.
func (f *checkFlags) check(stdout, stderr io.Writer, config string, args []string) error {
	if len(args) == 0 {
		args = nil // the configuration's pluginDirs
	}
	cfg, err := policy.Load(policy.LoadOptions{ConfigFile: config, PluginPaths: args, CheckFiles: true, Looks: newLooks()})
	var problems policy.Problems
	switch {
	case err == nil:
		problems = cfg.Problems
	case !errors.As(err, &problems):
		return err
	}
	refused := checkPrograms(cfg)
	problems = slices.Concat(problems, refused, checkUnsettled(cfg, config))
	report := newCheckReport(config, cfg, problems)
	report.refuse(refused)
	err = f.output.show(stdout, report, func(b *paper) {
		for _, p := range problems {
			writeProblem(b, p)
		}
	})
	if err != nil {
		return err
	}
	if config == "" {
		if _, err := fmt.Fprintf(stderr, "nri-supervisor: note: there is no %s: built-in defaults, which declare no team; set --config\n", defaultConfig); err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
	}
	if err := write(stderr, []byte(report.summary()+"\n")); err != nil {
		return err
	}
	if len(problems.Errors()) > 0 || cfg == nil {
		return silentError{}
	}
	return nil
}

func newCheckReport(config string, cfg *policy.Config, problems policy.Problems) checkReport {
	r := checkReport{Config: config, Usable: cfg != nil, Valid: []string{}, Problems: []checkProblem{}}
	if cfg != nil {
		for _, p := range cfg.Plugins {
			r.Valid = append(r.Valid, p.Name)
		}
		r.Invalid = len(cfg.Invalid)
	}
	for _, p := range problems {
		r.Problems = append(r.Problems, checkProblem{p.File, p.Line, p.Field, p.Plugin, p.Severity.String(), p.Message, p.Remedy})
	}
	return r
}

// refuse takes the plugins of the problems from the valid ones.
func (r *checkReport) refuse(problems policy.Problems) {
	for _, p := range problems {
		r.Valid = slices.DeleteFunc(r.Valid, func(name string) bool { return name == p.Plugin })
		r.Invalid++
	}
}

// summary is the last line.
func (r checkReport) summary() string {
	errs, warnings := 0, 0
	for _, p := range r.Problems {
		if p.Severity == policy.Warning.String() {
			warnings++
		} else {
			errs++
		}
	}
	out := count(len(r.Valid), "plugin") + fmt.Sprintf(" valid, %d invalid", r.Invalid)
	if !r.Usable {
		out = "the configuration cannot be used"
	}
	if errs+warnings > 0 {
		out += ": " + count(errs, "error") + ", " + count(warnings, "warning")
	}
	return out
}

// writeProblem writes a problem on a line of its own. A remedy may be text to paste: its further lines are indented.
func writeProblem(b *paper, p policy.Problem) {
	for i, line := range strings.Split(strings.TrimRight(p.Error(), "\n"), "\n") {
		if i == 0 {
			hang(b, "", noteIndent, line)
			continue
		}
		evidence(b, "    ", line)
	}
}
