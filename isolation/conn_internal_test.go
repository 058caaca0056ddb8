package isolation

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// connected returns the runtime's side of a connection and a client of it.
func connected(t *testing.T, onUpdate updateFunc) (*nriConn, api.RuntimeService) {
	t.Helper()
	local, peer, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newPacedConn(local, onUpdate, unpaced())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	conn, err := net.FileConn(peer)
	if err != nil {
		t.Fatal(err)
	}
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	mux := multiplex.Multiplex(conn)
	t.Cleanup(func() { _ = mux.Close() })
	runtimeConn, err := mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	client := ttrpc.NewClient(runtimeConn)
	t.Cleanup(func() { _ = client.Close() })
	return c, api.NewRuntimeClient(client)
}

func TestAPluginRegistersOnce(t *testing.T) {
	t.Parallel()
	c, runtime := connected(t, nil)
	if _, err := runtime.RegisterPlugin(t.Context(), &api.RegisterPluginRequest{PluginName: "a", PluginIdx: "01", NRIVersion: "v1"}); err != nil {
		t.Fatal(err)
	}
	<-c.registered
	_, err := runtime.RegisterPlugin(t.Context(), &api.RegisterPluginRequest{PluginName: "b", PluginIdx: "02"})
	if status.Code(err) != codes.AlreadyExists {
		t.Errorf("got %v", err)
	}
	if got := c.registration(); got != (Registration{Name: "a", Index: "01", NRIVersion: "v1"}) {
		t.Errorf("registration %+v", got)
	}
}

func TestUpdatesAreTakenOnlyWhenTheyCanBe(t *testing.T) {
	t.Parallel()
	update := []*api.ContainerUpdate{{ContainerId: "c"}}
	echo := func(_ context.Context, u []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return u, nil }
	for name, tt := range map[string]struct {
		onUpdate updateFunc
		register bool
		req      *api.UpdateContainersRequest
		want     codes.Code
	}{
		"before the registration": {echo, false, &api.UpdateContainersRequest{Update: update}, codes.FailedPrecondition},
		"nobody takes them":       {nil, true, &api.UpdateContainersRequest{Update: update}, codes.Unavailable},
		"evictions": {echo, true, &api.UpdateContainersRequest{
			Update: update, Evict: []*api.ContainerEviction{{ContainerId: "c"}},
		}, codes.InvalidArgument},
		"taken": {echo, true, &api.UpdateContainersRequest{Update: update}, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, runtime := connected(t, tt.onUpdate)
			if tt.register {
				if _, err := runtime.RegisterPlugin(t.Context(), &api.RegisterPluginRequest{PluginName: "a"}); err != nil {
					t.Fatal(err)
				}
			}
			reply, err := runtime.UpdateContainers(t.Context(), tt.req)
			if status.Code(err) != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if err == nil && len(reply.GetFailed()) != 1 {
				t.Errorf("failed updates %v", reply.GetFailed())
			}
		})
	}
}

func TestClosingWaitsForUpdatesThatAreBeingTaken(t *testing.T) {
	t.Parallel()
	entered, ended, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	c, runtime := connected(t, func(ctx context.Context, u []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		close(entered)
		<-ctx.Done() // the end of the connection
		close(ended)
		<-release
		return u, nil
	})
	if _, err := runtime.RegisterPlugin(t.Context(), &api.RegisterPluginRequest{PluginName: "a"}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = runtime.UpdateContainers(t.Context(), &api.UpdateContainersRequest{}) }()
	<-entered
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.close()
	}()
	<-ended
	select {
	case <-closed:
		t.Error("closed while an update was being taken")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	<-closed
}

func TestOnlySoManyUpdatesAreTakenAtOnce(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	_, runtime := connected(t, func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		entered <- struct{}{}
		<-release
		return nil, nil
	})
	if _, err := runtime.RegisterPlugin(t.Context(), &api.RegisterPluginRequest{PluginName: "a"}); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for range maxUpdates {
		calls.Go(func() {
			if _, err := runtime.UpdateContainers(t.Context(), &api.UpdateContainersRequest{}); err != nil {
				t.Error(err)
			}
		})
		<-entered
	}
	if _, err := runtime.UpdateContainers(t.Context(), &api.UpdateContainersRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	close(release)
	calls.Wait()
}

func TestAPluginThatSendsMoreThanIsTakenIsCutOff(t *testing.T) {
	t.Parallel()
	local, peer, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newPacedConn(local, nil, unpaced())
	if err != nil {
		t.Fatal(err)
	}
	frame := append([]byte{0, 0, 0, 9, 0, 0x10, 0, 0}, make([]byte, 1<<20)...) // nobody takes connection 9
	sent := 0
	for err == nil {
		var n int
		n, err = peer.Write(frame)
		sent += n
	}
	if sent > maxBacklog+2*len(frame) {
		t.Errorf("%d bytes were taken, the limit is %d", sent, maxBacklog)
	}
	<-c.closed
	c.close()
	if err := peer.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheBacklogOfAnHonestPluginComesToNothing(t *testing.T) {
	t.Parallel()
	c, runtime := connected(t, func(_ context.Context, u []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return u, nil })
	if _, err := runtime.RegisterPlugin(t.Context(), &api.RegisterPluginRequest{PluginName: "a"}); err != nil {
		t.Fatal(err)
	}
	big := []*api.ContainerUpdate{{ContainerId: strings.Repeat("x", 3<<20)}}
	for range 2 * maxBacklog / (3 << 20) {
		if _, err := runtime.UpdateContainers(t.Context(), &api.UpdateContainersRequest{Update: big}); err != nil {
			t.Fatal(err)
		}
	}
	if left := c.below.backlog.Load(); left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}

func TestGarbageOnTheConnectionEndsItAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, garbage := range map[string][]byte{
		"an impossible frame":   {0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff},
		"an unknown connection": append([]byte{0, 0, 0, 9, 0, 0, 0, 4, 1, 2, 3, 4}, make([]byte, 0)...),
		"an oversized message":  {0, 0, 0, 1, 0, 0, 0, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local, peer, err := socketPair()
			if err != nil {
				t.Fatal(err)
			}
			c, err := newNRIConn(local, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := peer.Write(garbage); err != nil {
				t.Fatal(err)
			}
			if err := peer.Close(); err != nil {
				t.Fatal(err)
			}
			<-c.closed
			c.close()
		})
	}
}
