package supervisor

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// TestAPluginComesUpWhenThereAreDescriptorsAgain: starts that failed because the supervisor had none make no crash loop, which nothing but an operator would end soon.
func TestAPluginComesUpWhenThereAreDescriptorsAgain(t *testing.T) {
	t.Parallel()
	const failures = 6
	f, _ := serve(t, load(t, [2]string{"p", sel("x") + "  restart: {backoff: 1ms, maxBackoff: 2ms, crashLoop: {exits: 2, within: 1h, retryEvery: 1h}}\n"}), makers{
		"p": func(n int) (*fakePlugin, error) {
			if n <= failures {
				return nil, fmt.Errorf("create socket pair: %w", syscall.EMFILE)
			}
			return &fakePlugin{}, nil
		},
	})
	f.eventually("as many starts failed as should", func() bool {
		return len(f.events(func(e Event) bool { _, ok := e.(PluginStartFailed); return ok })) == failures
	})
}

func TestWhatAPluginRunsOutOfByItsOwnLimitIsItsOwnFault(t *testing.T) {
	t.Parallel()
	one := resource.MustParse("1")
	for name, tt := range map[string]struct {
		err  error
		own  policy.ResourceLimits
		want bool
	}{
		"descriptors of the process":         {syscall.EMFILE, policy.ResourceLimits{}, true},
		"its own limit of descriptors":       {syscall.EMFILE, policy.ResourceLimits{NoFile: &one}, false},
		"descriptors of the node":            {syscall.ENFILE, policy.ResourceLimits{NoFile: &one}, true},
		"no room for a process":              {&fs.PathError{Op: "fork/exec", Err: syscall.EAGAIN}, policy.ResourceLimits{}, true},
		"no room among its own processes":    {&fs.PathError{Op: "fork/exec", Err: syscall.EAGAIN}, policy.ResourceLimits{PIDs: &one}, false},
		"no memory":                          {syscall.ENOMEM, policy.ResourceLimits{}, true},
		"no memory of its own":               {syscall.ENOMEM, policy.ResourceLimits{Memory: &one}, false},
		"no such file, which is its mistake": {syscall.ENOENT, policy.ResourceLimits{}, false},
	} {
		if got := lacking(fmt.Errorf("exec: %w", tt.err), &tt.own); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
