package isolation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

func TestAStateLargerThanOneMessageArrivesCompleteAndInOrder(t *testing.T) {
	t.Parallel()
	for _, protocol := range []isolation.Protocol{isolation.GoPlugin, isolation.NRI} {
		t.Run(protocol.String(), func(t *testing.T) {
			t.Parallel()
			mode := map[isolation.Protocol]string{isolation.GoPlugin: "sdk", isolation.NRI: "stock"}[protocol]
			i := startAndConfigure(t, spec(t, protocol, mode))
			const n, size = 60, 200 << 10 // 12 MiB and 12 MiB
			var pods []*api.PodSandbox
			var ctrs []*api.Container
			for k := range n {
				big := map[string]string{"big": strings.Repeat("x", size)}
				pods = append(pods, &api.PodSandbox{Id: fmt.Sprint("p", k), Annotations: big})
				ctrs = append(ctrs, &api.Container{Id: fmt.Sprint("c", k), Annotations: big})
			}
			for range 2 { // again on the same connection
				updates, err := i.Synchronize(t.Context(), pods, ctrs)
				if err != nil {
					t.Fatal(err)
				}
				if len(updates) != 1 || updates[0].GetContainerId() != fmt.Sprint("c", n-1) ||
					updates[0].GetLinux().GetResources().GetCpu().GetShares().GetValue() != n {
					t.Errorf("updates %v", updates)
				}
			}
		})
	}
}

func TestAnObjectThatFitsInNoMessageIsAClearError(t *testing.T) {
	t.Parallel()
	i := startAndConfigure(t, spec(t, isolation.GoPlugin, "sdk"))
	big := &api.PodSandbox{Id: "p1", Annotations: map[string]string{"big": strings.Repeat("x", 4<<20)}}
	_, err := i.Synchronize(t.Context(), []*api.PodSandbox{big}, nil)
	if err == nil || !strings.Contains(err.Error(), `pod "p1" has 4194`) || !strings.Contains(err.Error(), "the limit of a message is") {
		t.Errorf("got %v", err)
	}
	if _, err := create(t, i, "web"); err != nil {
		t.Errorf("the connection is broken: %v", err)
	}
}

func TestALateReplyIsSeenByACallWithDeadline(t *testing.T) {
	t.Parallel()
	i := startAndConfigure(t, spec(t, isolation.NRI, "stock"))
	if err := syscall.Kill(i.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "process is stopped", func() bool { return stopped(i.PID()) })
	type result struct {
		reply *api.CreateContainerResponse
		err   error
	}
	deadline := time.Now().Add(50 * time.Millisecond)
	done := make(chan result, 1)
	go func() {
		ctx := isolation.WithDeadline(context.Background(), deadline)
		reply, err := i.Plugin().CreateContainer(ctx, &api.CreateContainerRequest{Container: &api.Container{Name: "web"}})
		done <- result{reply, err}
	}()
	timer := time.NewTimer(time.Until(deadline) + 50*time.Millisecond)
	defer timer.Stop()
	select {
	case r := <-done:
		t.Fatalf("ended early: %v", r.err)
	case <-timer.C:
	}
	if err := syscall.Kill(i.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.err != nil || env(r.reply, "PLUGIN") != "/web" {
		t.Errorf("got %v, %v", r.reply, r.err)
	}
}

func TestACallToAPluginThatDoesNotReadEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	i := startAndConfigure(t, spec(t, isolation.GoPlugin, "sdk"))
	if err := syscall.Kill(i.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "process is stopped", func() bool { return stopped(i.PID()) })
	req := &api.CreateContainerRequest{Pod: &api.PodSandbox{Id: "p", Annotations: map[string]string{"big": strings.Repeat("x", 3<<20)}}}
	began := time.Now()
	_, err := i.Plugin().CreateContainer(isolation.WithDeadline(t.Context(), began.Add(time.Hour)), req)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > isolation.WriteStall+10*time.Second {
		t.Errorf("took %s", took)
	}
	wait(t, i.ConnClosed(), "connection is closed")
	if _, err := i.Plugin().CreateContainer(t.Context(), req); !errors.Is(err, ttrpc.ErrClosed) {
		t.Errorf("a later call got %v", err)
	}
}

func TestUpdatesThatAPluginAsksForReachTheOwner(t *testing.T) {
	t.Parallel()
	out := newLines()
	got := make(chan []*api.ContainerUpdate, 1)
	s := spec(t, isolation.GoPlugin, "sdk")
	s.OnOutput = out.add
	s.OnUpdate = func(_ context.Context, u []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		got <- u
		return u, nil
	}
	i := startAndConfigure(t, s)
	if _, err := create(t, i, "update:c9"); err != nil {
		t.Fatal(err)
	}
	if u := <-got; len(u) != 1 || u[0].GetContainerId() != "c9" {
		t.Errorf("got %v", u)
	}
	out.wait(t, withText("updated: failed=1 err=<nil>"))
}

func TestUpdatesThatNobodyTakesAreRefused(t *testing.T) {
	t.Parallel()
	out := newLines()
	s := spec(t, isolation.NRI, "stock")
	s.OnOutput = out.add
	i := startAndConfigure(t, s)
	if _, err := create(t, i, "update:c9"); err != nil {
		t.Fatal(err)
	}
	out.wait(t, withText("updates are not accepted from this plugin"))
}

func TestErrorsOfAPluginOfTheSDKKeepTheirMeaning(t *testing.T) {
	t.Parallel()
	i := startAndConfigure(t, spec(t, isolation.GoPlugin, "sdk"))
	for name, tt := range map[string]struct{ container, want string }{
		"error":          {"error:no licence", "rpc error: code = Unknown desc = no licence"},
		"rejection":      {"reject:no GPU left", "*wire.RejectError rejected by plugin: no GPU left"},
		"not interested": {"not-interested:pod", `*wire.NotInterestedError nri-supervisor.dev/not-interested: {"scope":"pod"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, i, tt.container)
			got := wire.Decode(err)
			text := got.Error()
			if strings.HasPrefix(tt.want, "*") {
				text = fmt.Sprintf("%T %v", got, got)
			}
			if text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

func TestConfigureMayComeAnyNumberOfTimes(t *testing.T) {
	t.Parallel()
	i := startAndConfigure(t, spec(t, isolation.GoPlugin, "sdk"))
	for n := range 5 {
		reply := configure(t, i, fmt.Sprint("again", n))
		if got := api.EventMask(reply.GetEvents()); got.PrettyString() != "CreateContainer,RemoveContainer" {
			t.Errorf("events %s", got.PrettyString())
		}
	}
	reply, err := create(t, i, "calls")
	if err != nil {
		t.Fatal(err)
	}
	want := "Configure ,Configure again0,Configure again1,Configure again2,Configure again3,Configure again4,CreateContainer calls"
	if diff := cmp.Diff(want, env(reply, "CALLS")); diff != "" {
		t.Error(diff)
	}
}
