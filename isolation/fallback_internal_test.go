package isolation

import (
	"context"
	"errors"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (f *fakePlugin) RunPodSandbox(context.Context, *api.RunPodSandboxRequest) (*api.RunPodSandboxResponse, error) {
	return &api.RunPodSandboxResponse{}, f.event("RunPodSandbox")
}

func (f *fakePlugin) PostUpdatePodSandbox(context.Context, *api.PostUpdatePodSandboxRequest) (*api.PostUpdatePodSandboxResponse, error) {
	return &api.PostUpdatePodSandboxResponse{}, f.event("PostUpdatePodSandbox")
}

func (f *fakePlugin) StopPodSandbox(context.Context, *api.StopPodSandboxRequest) (*api.StopPodSandboxResponse, error) {
	return &api.StopPodSandboxResponse{}, f.event("StopPodSandbox")
}

func (f *fakePlugin) RemovePodSandbox(context.Context, *api.RemovePodSandboxRequest) (*api.RemovePodSandboxResponse, error) {
	return &api.RemovePodSandboxResponse{}, f.event("RemovePodSandbox")
}

func (f *fakePlugin) PostCreateContainer(context.Context, *api.PostCreateContainerRequest) (*api.PostCreateContainerResponse, error) {
	return &api.PostCreateContainerResponse{}, f.event("PostCreateContainer")
}

func (f *fakePlugin) StartContainer(context.Context, *api.StartContainerRequest) (*api.StartContainerResponse, error) {
	return &api.StartContainerResponse{}, f.event("StartContainer")
}

func (f *fakePlugin) PostStartContainer(context.Context, *api.PostStartContainerRequest) (*api.PostStartContainerResponse, error) {
	return &api.PostStartContainerResponse{}, f.event("PostStartContainer")
}

func (f *fakePlugin) PostUpdateContainer(context.Context, *api.PostUpdateContainerRequest) (*api.PostUpdateContainerResponse, error) {
	return &api.PostUpdateContainerResponse{}, f.event("PostUpdateContainer")
}

func (f *fakePlugin) RemoveContainer(context.Context, *api.RemoveContainerRequest) (*api.RemoveContainerResponse, error) {
	return &api.RemoveContainerResponse{}, f.event("RemoveContainer")
}

func (f *fakePlugin) StateChange(_ context.Context, e *api.StateChangeEvent) (*api.Empty, error) {
	name := "StateChange " + e.GetEvent().PrettyName()
	if e.GetContainer() != nil {
		name += " " + e.GetContainer().GetId()
	}
	return &api.Empty{}, f.event(name)
}

// allEvents sends each event that StateChange could carry, in order.
func allEvents(ctx context.Context, p api.PluginService) error {
	c := &api.Container{Id: "c"}
	var errs []error
	add := func(_ any, err error) { errs = append(errs, err) }
	add(p.RunPodSandbox(ctx, &api.RunPodSandboxRequest{}))
	add(p.PostUpdatePodSandbox(ctx, &api.PostUpdatePodSandboxRequest{}))
	add(p.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Container: c}))
	add(p.StartContainer(ctx, &api.StartContainerRequest{Container: c}))
	add(p.PostStartContainer(ctx, &api.PostStartContainerRequest{Container: c}))
	add(p.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Container: c}))
	add(p.RemoveContainer(ctx, &api.RemoveContainerRequest{Container: c}))
	add(p.StopPodSandbox(ctx, &api.StopPodSandboxRequest{}))
	add(p.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{}))
	return errors.Join(errs...)
}

func eventNames() []string {
	return []string{
		"RunPodSandbox", "PostUpdatePodSandbox", "PostCreateContainer", "StartContainer", "PostStartContainer",
		"PostUpdateContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
	}
}

func asStateChange(names []string) []string {
	var out []string
	for _, n := range names {
		switch n {
		case "RunPodSandbox", "PostUpdatePodSandbox", "StopPodSandbox", "RemovePodSandbox":
			out = append(out, "StateChange "+n)
		default:
			out = append(out, "StateChange "+n+" c")
		}
	}
	return out
}

func TestAnOldPluginGetsEachEventOnceAsAStateChange(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]func(string) error{
		"ttrpc 1.2":     func(m string) error { return status.Error(codes.Unimplemented, "method "+m) },
		"ttrpc 1.1":     func(m string) error { return status.Error(codes.NotFound, "method "+m) },
		"another ttrpc": func(m string) error { return status.Error(codes.Unimplemented, m+" is not supported") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var handled []string
			asked := 0
			p := &fakePlugin{event: func(n string) error {
				if n[:5] != "State" {
					asked++
					return refusal(n)
				}
				handled = append(handled, n)
				return nil
			}}
			f := newEventFallback(p, func() string { return "" })
			if err := allEvents(t.Context(), f); err != nil {
				t.Error(err)
			}
			if asked != 1 {
				t.Errorf("asked %d times by dedicated calls, want once", asked)
			}
			if diff := cmp.Diff(asStateChange(eventNames()), handled); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestANewPluginGetsEachEventOnceWhateverItAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer  error
		version string
	}{
		"success":                         {nil, "v0.12.5"},
		"an error":                        {errors.New("no"), "v0.12.5"},
		"its own Unimplemented":           {status.Error(codes.Unimplemented, "no such GPU"), "v0.12.5"},
		"its own NotFound":                {status.Error(codes.NotFound, "no such GPU"), ""},
		"success without a known version": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var handled []string
			p := &fakePlugin{event: func(n string) error {
				handled = append(handled, n)
				return tt.answer
			}}
			err := allEvents(t.Context(), newEventFallback(p, func() string { return tt.version }))
			if (err == nil) != (tt.answer == nil) {
				t.Errorf("got %v, want %v", err, tt.answer)
			}
			if diff := cmp.Diff(eventNames(), handled); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnErrorOfAStateChangeIsTheEvents(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	p := &fakePlugin{event: func(n string) error {
		if n == "RunPodSandbox" {
			return status.Error(codes.Unimplemented, "method RunPodSandbox")
		}
		return no
	}}
	f := newEventFallback(p, func() string { return "" })
	if _, err := f.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{}); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
}
