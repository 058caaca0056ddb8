package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/plugins"
)

const (
	// modeEnv makes this test binary behave as a plugin; preinstalled does the same as the name of the executable, for a
	// runtime that passes on no environment.
	modeEnv      = "PLUGINS_TEST_MODE"
	socketEnv    = "PLUGINS_TEST_SOCKET"
	preinstalled = "33-preinstalled"
)

func TestMain(m *testing.M) {
	if os.Getenv(modeEnv) != "" || filepath.Base(os.Args[0]) == preinstalled {
		os.Exit(beAPlugin())
	}
	os.Exit(m.Run())
}

func beAPlugin() int {
	opts := []plugins.Option{plugins.WithVersion("v9")}
	if socket := os.Getenv(socketEnv); socket != "" {
		opts = append(opts, plugins.WithName("external"), plugins.WithIndex("44"), plugins.WithSocket(socket))
	}
	err := plugins.Serve(&testPlugin{sick: os.Getenv(modeEnv) == "sick"}, opts...)
	switch {
	case errors.Is(err, plugins.ErrConnectionLost):
		return 3
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// testPlugin does what the names of containers say.
type testPlugin struct {
	sick bool

	mu    sync.Mutex
	calls []string
}

func (p *testPlugin) record(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, s)
}

func (p *testPlugin) Health(context.Context) error {
	if p.sick {
		return errors.New("no driver")
	}
	return nil
}

func (p *testPlugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.record("RunPodSandbox " + pod.GetName())
	return act(pod.GetName())
}

func (p *testPlugin) CreateContainer(
	_ context.Context, _ *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.record("CreateContainer " + c.GetName())
	p.mu.Lock()
	defer p.mu.Unlock()
	adjust := &api.ContainerAdjustment{}
	adjust.AddEnv("CALLS", strings.Join(p.calls, ","))
	return adjust, nil, act(c.GetName())
}

func act(name string) error {
	verb, arg, _ := strings.Cut(name, ":")
	switch verb {
	case "error":
		return errors.New(arg)
	case "unimplemented":
		return status.Error(codes.Unimplemented, arg)
	case "reject":
		return fmt.Errorf("wrapped: %w", plugins.Reject(arg))
	case "not-interested":
		return fmt.Errorf("wrapped: %w", plugins.NotInterested(plugins.Scope(arg)))
	}
	return nil
}

func (p *testPlugin) Shutdown(context.Context) {
	fmt.Println("shutdown handler called")
}
