package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// waitPreinstalled bounds the wait for the plugins when the runtime started the supervisor: it waits for the registration of one plugin after the other, and kills one that is later
// than five seconds (design §2.1).
const waitPreinstalled = time.Second

// preinstalled is what a runtime gives to the plugins that it starts from its plugin folder: a connection, a name and an index. Nothing of it goes on to a child.
type preinstalled struct {
	conn        net.Conn
	name, index string
}

// startedByRuntime reports whether a runtime started this process as a pre-installed plugin.
func startedByRuntime() bool { return os.Getenv(api.PluginSocketEnvVar) != "" }

// takePreinstalled takes what the runtime gave out of the environment and off the inherited descriptors.
func takePreinstalled() (*preinstalled, error) {
	p := &preinstalled{name: os.Getenv(api.PluginNameEnvVar), index: os.Getenv(api.PluginIdxEnvVar)}
	socket := os.Getenv(api.PluginSocketEnvVar)
	for _, name := range []string{api.PluginNameEnvVar, api.PluginIdxEnvVar, api.PluginSocketEnvVar} {
		if err := os.Unsetenv(name); err != nil { // NRI's stub would refuse a name of ours beside the variable
			return nil, fmt.Errorf("take %s out of the environment: %w", name, err)
		}
	}
	p.name = strings.TrimPrefix(p.name, p.index+"-") // older runtimes say the index twice
	if err := errors.Join(api.CheckPluginIndex(p.index), api.CheckPluginName(p.name)); err != nil {
		return nil, fmt.Errorf("name %q and index %q from the runtime: %w: call the file NN-nri-supervisor", p.name, p.index, err)
	}
	fd, err := strconv.Atoi(socket)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q from the runtime is not a descriptor", api.PluginSocketEnvVar, socket)
	}
	f := os.NewFile(uintptr(fd), "nri")
	p.conn, err = net.FileConn(f)                      // a duplicate that no child inherits
	if err = errors.Join(err, f.Close()); err != nil { // so that the connection ends when we close it
		return nil, fmt.Errorf("descriptor %d from the runtime: %w", fd, err)
	}
	return p, nil
}

// applyTo makes the supervisor register on the runtime's connection, as the runtime calls it, and end with it.
func (p *preinstalled) applyTo(o *supervisor.Options) {
	o.Config.Supervisor.Runtime.Name, o.Config.Supervisor.Runtime.Index = p.name, p.index
	o.WaitForPlugins = min(o.WaitForPlugins, waitPreinstalled)
	o.OneSession = true
	o.Dial = func(context.Context) (net.Conn, error) { return p.conn, nil }
}

// tell writes an error that comes before there is a configuration to where the log would be without any. Without a runtime that started us, whoever did reads it.
func (p *preinstalled) tell(level zap.AtomicLevel, cause error) error {
	if p == nil {
		return cause
	}
	defaults, _ := policy.DefaultSpecs()
	if log, end, err := p.log(defaults.StateDir, level); err == nil {
		log.Error("ended", zap.Error(cause))
		end()
	}
	return cause
}

// log is the log of a process whose output goes nowhere: the journal, or else a file in the state directory.
func (p *preinstalled) log(stateDir string, level zap.AtomicLevel) (*zap.Logger, func(), error) {
	if journalReachable() {
		log, repeats := journalLogger(level)
		return log, repeats.flush, nil
	}
	f, err := openLogFile(filepath.Join(stateDir, logFileName))
	if err != nil {
		return nil, nil, err
	}
	log, repeats, err := newLogger(f, level, "json")
	if err != nil {
		f.close()
		return nil, nil, err
	}
	return log, func() {
		repeats.flush()
		f.close()
	}, nil
}
