package main

import (
	"errors"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// openHost makes what the plugins' processes share, and says what this host lacks.
func openHost(runDir string, log *zap.Logger) (*isolation.Host, error) {
	host, err := isolation.OpenHost(isolation.HostOptions{
		RunDir: runDir, Helper: []string{helperCommand},
		OnProblem: func(err error) { log.Error("isolation of plugins", zap.Error(err)) },
	})
	if errors.Is(err, isolation.ErrInUse) {
		return nil, hintError{err, []string{"stop the other one, or set another runDir"}}
	}
	if err != nil {
		return nil, err
	}
	if err := host.Cgroups(); err != nil {
		log.Warn("plugins get no cgroups", zap.Error(err))
	}
	return host, nil
}

func newLauncher(cfg *policy.Config, source *policy.LoadOptions, host *isolation.Host, log *zap.Logger) *launcher {
	looks := source.Looks
	for _, p := range cfg.Plugins {
		if p.Spec.Attach != nil {
			socket := p.Spec.Attach.Socket
			_ = looks.Try(filepath.Dir(socket), func() error { return isolation.MakeDockFolder(socket) }) // who listens there says what is wrong
		}
	}
	l := &launcher{
		runDir: cfg.Supervisor.RunDir, host: host, looks: looks, confine: confinementsOf(cfg, source.ConfigFile, looks), runs: runners{looks: looks, bare: os.Geteuid() != 0},
		reduced: func(plugin, team string, missing []string) {
			log.Warn("plugin runs with less than its profile", append(who(plugin, team), zap.Strings("missing", missing))...)
		},
		remade: func(p *policy.Plugin, err error) {
			fields := append(who(p.Name, p.Team), zap.String("socket", p.Spec.Attach.Socket))
			if err != nil {
				log.Error("somebody removed the socket at which the plugin attaches", append(fields, zap.Error(err))...)
				return
			}
			log.Warn("somebody removed the socket at which the plugin attaches; it was made anew", fields...)
		},
	}
	l.runs.configure(cfg.Plugins, l.confine)
	for _, p := range cfg.Plugins {
		if p.Spec.Exec != nil {
			l.runs.know(loadedFiles(looks, p, writtenEnv(p.Spec.Exec))) // before any of them can write
		}
	}
	return l
}
