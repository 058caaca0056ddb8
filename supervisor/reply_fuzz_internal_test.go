package supervisor

import (
	"bytes"
	"context"
	"path"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// FuzzWhatPluginsReply lets two plugins reply anything. What reaches the runtime has no empty ids and keys, no path that is not absolute, no field and value that was not granted, no foreign
// container, no name that breaks a line or ends a text, no path that is another's in another spelling, fits into a message, and is the same each time.
func FuzzWhatPluginsReply(f *testing.F) {
	seed := func(rpl *api.CreateContainerResponse) []byte {
		b, err := proto.Marshal(rpl)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	full := env("GPU_A", "1", "-GPU_B", "")
	full.Mounts = []*api.Mount{{Source: "/opt/x", Destination: "/m", Type: "bind", Options: []string{"rbind"}}, {Destination: "-/n"}}
	full.Annotations = map[string]string{"a": "1", "-b": ""}
	full.Linux = &api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: "/dev/a", Type: "c"}}, Resources: &api.LinuxResources{Memory: &api.LinuxMemory{Limit: api.Int64(1)}}}
	f.Add(seed(&api.CreateContainerResponse{Adjust: full, Update: []*api.ContainerUpdate{shares("known", 2), shares("foreign", 2)}}), seed(&api.CreateContainerResponse{Adjust: env("GPU_A", "2")}))
	f.Add(seed(&api.CreateContainerResponse{Adjust: env("LD_PRELOAD", "1")}), seed(&api.CreateContainerResponse{Update: []*api.ContainerUpdate{{}}}))
	f.Add(seed(&api.CreateContainerResponse{Adjust: env("", "1"), Evict: []*api.ContainerEviction{{ContainerId: "x"}}}), seed(&api.CreateContainerResponse{Adjust: env("-GPU_A", "", "GPU_A", "3")}))
	f.Add(seed(&api.CreateContainerResponse{Adjust: env("GPU_A\nLD_PRELOAD", "1")}), seed(&api.CreateContainerResponse{Adjust: env("GPU_A=1", "", "GPU_\x00", "")}))
	f.Add(seed(&api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Mounts: []*api.Mount{{Source: "/opt/x", Destination: "/m", Type: "bind"}}}}),
		seed(&api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Mounts: []*api.Mount{{Source: "/opt/x", Destination: "/a/../m/", Type: "bind"}, {Destination: "-/m\n"}}}}))
	f.Add(seed(&api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Annotations: map[string]string{"a\nb": ""}, Hooks: &api.Hooks{Prestart: []*api.Hook{{Path: "h"}}}}}),
		seed(&api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Rlimits: []*api.POSIXRlimit{{Type: "RLIMIT_\n"}}}, Update: []*api.ContainerUpdate{shares("known\n", 1)}}))
	manifest := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: %}\nspec:\n  team: t\n  index: \"10\"\n  exec: {path: /x}\n  selector: {}\n  permissions: {env: {names: [GPU_*]}, mounts: {sources: [/opt/**]}}\n"
	cfg, err := policy.Parse([]policy.SourceFile{
		{Path: "c", Data: []byte("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {teams: {t: {}}}\n")},
		{Path: "p1", Data: bytes.ReplaceAll([]byte(manifest), []byte("%"), []byte("a"))},
		{Path: "p2", Data: bytes.ReplaceAll([]byte(manifest), []byte("%"), []byte("b"))},
	}, policy.LoadOptions{ConfigFile: "c"})
	if err != nil || len(cfg.Plugins) != 2 {
		f.Fatal(err, cfg)
	}
	s := New(Options{Config: cfg})
	known := pod("p")
	s.store.ObserveContainer(known, ctr("p", "known"), s.started)
	s.containerSelection(store.Ref{Pod: "p", Container: "known"}, known, ctr("p", "known"))
	members := []merge.Member{{Name: "a", Index: "10"}, {Name: "b", Index: "10"}}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		run := func() []byte {
			v := &visit{sup: s, event: api.Event_CREATE_CONTAINER, ref: store.Ref{Pod: "p", Container: "new"}, pod: known, ctr: ctr("p", "new")}
			res, err := s.merge.CreateContainer(t.Context(), members, &api.CreateContainerRequest{Pod: known, Container: ctr("p", "new")},
				func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
					rpl := &api.CreateContainerResponse{}
					if proto.Unmarshal([][]byte{first, second}[m], rpl) != nil {
						return nil
					}
					h := s.plan().hosts[m]
					verdict := h.judgeCreate(v, m)(rpl, nil)
					if verdict.outcome != breaker.OutcomeSuccess {
						return nil
					}
					out, _ := verdict.reply.(*api.CreateContainerResponse)
					v.earlier.add(m, h.name, out.GetAdjust())
					return out
				}, merge.CreateOptions{Dropped: func(d merge.Dropped) { v.earlier.drop(d.Member) }})
			if err != nil {
				t.Fatal(err)
			}
			wellFormed(t, cfg.Plugins[0], res.Reply)
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(res.Reply)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		if !bytes.Equal(run(), run()) {
			t.Error("two runs differ")
		}
	})
}

func wellFormed(t *testing.T, p *policy.Plugin, rpl *api.CreateContainerResponse) {
	t.Helper()
	if d := p.Denied(policy.Reply{Adjust: rpl.GetAdjust(), Updates: rpl.GetUpdate()}); len(d) > 0 {
		t.Errorf("what was not granted reaches the runtime: %v", d)
	}
	if err := checkAdjustment(rpl.GetAdjust()); err != nil {
		t.Errorf("the runtime gets what is malformed: %v", err)
	}
	if len(rpl.GetEvict()) > 0 || proto.Size(rpl) > 2*replyLimit {
		t.Error("evictions, or more than two replies can hold")
	}
	for _, m := range rpl.GetAdjust().GetMounts() {
		if !path.IsAbs(api.ClearRemovalMarker(m.GetDestination())) {
			t.Errorf("mount at %q", m.GetDestination())
		}
	}
	for _, u := range rpl.GetUpdate() {
		if u.GetContainerId() != "known" {
			t.Errorf("an update of container %q", u.GetContainerId())
		}
	}
}
