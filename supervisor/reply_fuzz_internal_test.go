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
	up := func(us ...*api.ContainerUpdate) []byte {
		b, err := proto.Marshal(&api.UpdateContainerResponse{Update: us})
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(up(shares("known", 2), shares("foreign", 2), shares("", 2)), up(shares("known", 3), memory("known", 1)))
	f.Add(up(&api.ContainerUpdate{ContainerId: "known"}, &api.ContainerUpdate{ContainerId: "known", IgnoreFailure: true, Linux: &api.LinuxContainerUpdate{Resources: &api.LinuxResources{
		Unified: map[string]string{"../x": "1"}, Devices: []*api.LinuxDeviceCgroup{{Allow: true, Type: "a", Access: "rwm"}}, HugepageLimits: []*api.HugepageLimit{{PageSize: "2MB"}, {}},
	}}}), up(memory("known", 5)))
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
		updatesReplied(t, s, cfg.Plugins[0], first, second)
	})
}

// updatesReplied is the same for replies to UpdateContainer and StopContainer, and for unsolicited updates.
func updatesReplied(t *testing.T, s *Supervisor, p *policy.Plugin, said ...[]byte) {
	t.Helper()
	own := ctr("p", "known")
	members := []merge.Member{{Name: "a", Index: "10"}, {Name: "b", Index: "10"}}
	visited := func(e api.Event) *visit {
		return &visit{sup: s, event: e, ref: store.Ref{Pod: "p", Container: "known"}, pod: pod("p"), ctr: own}
	}
	run := func() [2][]byte {
		var out [2][]byte
		v := visited(api.Event_UPDATE_CONTAINER)
		updated, err := s.merge.UpdateContainer(t.Context(), members, &api.UpdateContainerRequest{Pod: v.pod, Container: own, LinuxResources: &api.LinuxResources{}},
			func(_ context.Context, m int, _ *api.UpdateContainerRequest) *api.UpdateContainerResponse {
				rpl := &api.UpdateContainerResponse{}
				if proto.Unmarshal(said[m], rpl) != nil {
					return nil
				}
				kept, _ := s.plan().hosts[m].judgeUpdate(v)(rpl, nil).reply.(*api.UpdateContainerResponse)
				return kept
			})
		if err != nil {
			t.Fatal(err)
		}
		v = visited(api.Event_STOP_CONTAINER)
		stopped, err := s.merge.StopContainer(t.Context(), members, &api.StopContainerRequest{Pod: v.pod, Container: own},
			func(_ context.Context, m int, _ *api.StopContainerRequest) *api.StopContainerResponse {
				rpl := &api.StopContainerResponse{}
				if proto.Unmarshal(said[m], rpl) != nil {
					return nil
				}
				kept, _ := s.plan().hosts[m].judgeStop(v)(rpl, nil).reply.(*api.StopContainerResponse)
				return kept
			})
		if err != nil {
			t.Fatal(err)
		}
		for i, list := range [][]*api.ContainerUpdate{updated.Reply.GetUpdate(), stopped.Reply.GetUpdate()} {
			wellFormed(t, p, &api.CreateContainerResponse{Update: list})
			var err error
			if out[i], err = (proto.MarshalOptions{Deterministic: true}).Marshal(&api.StopContainerResponse{Update: list}); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	if a, b := run(), run(); !bytes.Equal(a[0], b[0]) || !bytes.Equal(a[1], b[1]) {
		t.Error("two runs over updates differ")
	}
	for m, b := range said {
		asked := &api.UpdateContainersRequest{}
		if proto.Unmarshal(b, asked) != nil {
			continue
		}
		for _, u := range asked.GetUpdate() {
			if s.updates.refusal(s.plan().hosts[m], u) == "" {
				wellFormed(t, p, &api.CreateContainerResponse{Update: []*api.ContainerUpdate{u}})
			}
		}
	}
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
		if err := checkUpdate(u); u == nil || err != nil {
			t.Errorf("update %v: %v", u, err)
		}
		if u.GetContainerId() != "known" {
			t.Errorf("an update of container %q", u.GetContainerId())
		}
	}
}
