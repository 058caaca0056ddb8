package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// Not parallel: it is about the environment of the process.
func TestWithoutArgumentsItRunsOnlyWhereARuntimeStartedIt(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), nil, &out, &errs); code != exitOK || !strings.Contains(out.String(), "Usage:") {
		t.Errorf("by hand: code %d, %q", code, out.String())
	}
	for name, c := range map[string]struct{ name, index, socket, want string }{
		"no descriptor":  {"nri-supervisor", "10", "x", "is not a descriptor"},
		"a bad index":    {"nri-supervisor", "7", "3", "call the file NN-nri-supervisor"},
		"not a socket":   {"10-nri-supervisor", "10", "987654", "descriptor 987654 from the runtime"},
		"standard input": {"nri-supervisor", "10", "0", "is not a descriptor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(api.PluginNameEnvVar, c.name)
			t.Setenv(api.PluginIdxEnvVar, c.index)
			t.Setenv(api.PluginSocketEnvVar, c.socket)
			var errs bytes.Buffer
			if code := run(t.Context(), nil, &bytes.Buffer{}, &errs); code != exitFailure || !strings.Contains(errs.String(), c.want) {
				t.Errorf("code %d, %q, want %q", code, errs.String(), c.want)
			}
			if startedByRuntime() {
				t.Error("the environment still says so")
			}
		})
	}
}

func TestItDoesNotHostItself(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "50-plugin")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"run", "--config", "x"}} {
		p := &policy.Plugin{Name: "p", Spec: policy.PluginSpec{Exec: &policy.ExecSpec{Path: link, Args: args}}}
		if _, err := new(launcher).Launch(context.Background(), p, supervisor.Hooks{}); err == nil || !strings.Contains(err.Error(), "nri-supervisor itself") {
			t.Errorf("with arguments %q: %v", args, err)
		}
	}
}
