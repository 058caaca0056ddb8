package plugins_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// host starts a plugin as any go-plugin host does, with nothing of the supervisor, and returns its control service and
// the other end of its NRI connection.
func host(t *testing.T, mode string) (wire.Control, net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	local, peer := os.NewFile(uintptr(fds[0]), "local"), os.NewFile(uintptr(fds[1]), "peer")
	conn, err := net.FileConn(local)
	if err != nil {
		t.Fatal(err)
	}
	_ = local.Close()
	t.Cleanup(func() { _ = conn.Close() })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = []string{
		modeEnv + "=" + mode, wire.EnvLogLevel + "=debug",
		api.PluginNameEnvVar + "=hosted", api.PluginIdxEnvVar + "=55", api.PluginSocketEnvVar + "=3",
	}
	cmd.ExtraFiles = []*os.File{peer}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: wire.Handshake(), Plugins: goplugin.PluginSet{wire.ControlPlugin: &wire.Plugin{}}, Cmd: cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, AutoMTLS: true, SkipHostEnv: true, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	_ = peer.Close()
	raw, err := protocol.Dispense(wire.ControlPlugin)
	if err != nil {
		t.Fatal(err)
	}
	control, ok := raw.(wire.Control)
	if !ok {
		t.Fatalf("dispensed a %T", raw)
	}
	return control, conn
}

func TestTheControlServiceDescribesThePlugin(t *testing.T) {
	t.Parallel()
	control, _ := host(t, "well")
	d, err := control.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.SDKVersion, d.NRIVersion = "", "" // unknown in a test binary
	if diff := cmp.Diff(wire.Description{Version: "v9", Events: []string{"RunPodSandbox", "CreateContainer"}}, d); diff != "" {
		t.Error(diff)
	}
}

func TestHealthIsWhatThePluginSays(t *testing.T) {
	t.Parallel()
	control, conn := host(t, "well")
	if err := control.Health(t.Context()); err != nil {
		t.Error(err)
	}
	sick, _ := host(t, "sick")
	err := sick.Health(t.Context())
	var unhealthy *wire.UnhealthyError
	if !errors.As(err, &unhealthy) || unhealthy.Reason != "no driver" {
		t.Errorf("got %v", err)
	}
	// Without its NRI connection a plugin is not healthy, whatever it says; it then ends.
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		err = control.Health(t.Context())
	}
}

func TestAnUnknownLogLevelIsRefused(t *testing.T) {
	t.Parallel()
	control, _ := host(t, "well")
	if err := control.SetLogLevel(t.Context(), "error"); err != nil {
		t.Error(err)
	}
	if err := control.SetLogLevel(t.Context(), "loud"); err == nil {
		t.Error("accepted")
	}
}

func TestStopEndsThePlugin(t *testing.T) {
	t.Parallel()
	control, conn := host(t, "well")
	if _, err := conn.Read(make([]byte, 1)); err != nil { // it registers
		t.Fatal(err)
	}
	if err := control.Stop(context.Background()); err != nil {
		t.Logf("the plugin was faster than its answer: %v", err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil { // until the other end is closed
		t.Error(err)
	}
}
