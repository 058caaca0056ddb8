package store_test

import (
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

func TestAnEmptyPodIsCompletedInEveryField(t *testing.T) {
	t.Parallel()
	full := &api.PodSandbox{}
	populate(full.ProtoReflect())
	want := proto.Clone(full).(*api.PodSandbox)
	want.Pid = 0
	s := store.New()
	s.ObservePod(full, noon)
	same(t, "pod", want, s.ObservePod(&api.PodSandbox{Id: full.GetId()}, noon))
	same(t, "stored pod", want, first(s.Pod(full.GetId())))
}

func TestAnEmptyContainerIsCompletedInEveryFieldWhoseZeroIsNotNews(t *testing.T) {
	t.Parallel()
	full := &api.Container{}
	populate(full.ProtoReflect())
	want := proto.Clone(full).(*api.Container)
	want.Pid, want.FinishedAt, want.ExitCode, want.StatusReason, want.StatusMessage = 0, 0, 0, "", ""
	s := store.New()
	s.ObserveCreation(nil, full, noon)
	got := s.ObserveContainer(nil, &api.Container{Id: full.GetId(), PodSandboxId: full.GetPodSandboxId()}, noon)
	same(t, "container", want, got.Container)
	same(t, "stored container", want, first(s.Container(got.Ref)))
}

func TestCompletionFillsOnlyWhatIsLacking(t *testing.T) {
	t.Parallel()
	resources := func(shares uint64) *api.LinuxResources {
		return &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(shares)}}
	}
	pods := []struct {
		name             string
		stored, in, want *api.PodSandbox
	}{
		{
			name:   "a value that comes again replaces the stored one",
			stored: &api.PodSandbox{Id: "p", Name: "old", Uid: "old", Ips: []string{"10.0.0.1"}},
			in:     &api.PodSandbox{Id: "p", Name: "new", Uid: "new", Ips: []string{"10.0.0.2"}},
			want:   &api.PodSandbox{Id: "p", Name: "new", Uid: "new", Ips: []string{"10.0.0.2"}},
		},
		{
			name:   "labels and annotations that the runtime no longer shows are kept, the others refreshed",
			stored: &api.PodSandbox{Id: "p", Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"x": "1"}},
			in:     &api.PodSandbox{Id: "p", Labels: map[string]string{"b": "3"}, Annotations: map[string]string{"y": "2"}},
			want:   &api.PodSandbox{Id: "p", Labels: map[string]string{"a": "1", "b": "3"}, Annotations: map[string]string{"x": "1", "y": "2"}},
		},
		{
			name:   "the linux part is completed field by field, resources as one",
			stored: &api.PodSandbox{Id: "p", Linux: &api.LinuxPodSandbox{CgroupParent: "/kube", PodResources: resources(1), Resources: resources(2)}},
			in:     &api.PodSandbox{Id: "p", Linux: &api.LinuxPodSandbox{PodResources: &api.LinuxResources{}}},
			want:   &api.PodSandbox{Id: "p", Linux: &api.LinuxPodSandbox{CgroupParent: "/kube", PodResources: &api.LinuxResources{}, Resources: resources(2)}},
		},
		{
			name:   "a process id that is gone stays gone",
			stored: &api.PodSandbox{Id: "p", Name: "n", Pid: 42},
			in:     &api.PodSandbox{Id: "p"},
			want:   &api.PodSandbox{Id: "p", Name: "n"},
		},
	}
	for _, tc := range pods {
		t.Run("pod/"+tc.name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			s.ObservePod(tc.stored, noon)
			same(t, "pod", tc.want, s.ObservePod(tc.in, noon))
		})
	}
	ctrs := []struct {
		name             string
		stored, in, want *api.Container
	}{
		{
			name:   "an annotation that an adjustment removed stays removed",
			stored: &api.Container{Id: "c", PodSandboxId: "p", Annotations: map[string]string{"a": "1", "b": "2"}},
			in:     &api.Container{Id: "c", PodSandboxId: "p", Annotations: map[string]string{"b": "2"}},
			want:   &api.Container{Id: "c", PodSandboxId: "p", Annotations: map[string]string{"b": "2"}},
		},
		{
			name:   "an exit is shown as it came",
			stored: &api.Container{Id: "c", PodSandboxId: "p", Pid: 42, StartedAt: 5, State: api.ContainerState_CONTAINER_RUNNING},
			in:     &api.Container{Id: "c", PodSandboxId: "p", FinishedAt: 9, ExitCode: 137, State: api.ContainerState_CONTAINER_STOPPED},
			want: &api.Container{
				Id: "c", PodSandboxId: "p", StartedAt: 5, FinishedAt: 9, ExitCode: 137, State: api.ContainerState_CONTAINER_STOPPED,
			},
		},
	}
	for _, tc := range ctrs {
		t.Run("container/"+tc.name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			s.ObserveCreation(nil, tc.stored, noon)
			same(t, "container", tc.want, s.ObserveContainer(nil, tc.in, noon).Container)
		})
	}
}

func TestAFieldOfALaterProtocolSurvivesCompletion(t *testing.T) {
	t.Parallel()
	const later = "\xfa\x3f\x03new" // field 1023, length-delimited
	s := store.New()
	s.ObservePod(pod("p"), noon)
	in := &api.PodSandbox{Id: "p"}
	in.ProtoReflect().SetUnknown([]byte(later))
	got := s.ObservePod(in, noon)
	if string(got.ProtoReflect().GetUnknown()) != later || got.GetName() != "name-p" {
		t.Errorf("observed pod = %v, want the unknown field and the stored name", got)
	}
}

func TestMessagesHandedOutNeverChange(t *testing.T) {
	t.Parallel()
	s := store.New()
	p1 := s.ObservePod(pod("p"), noon)
	c1 := s.ObserveCreation(nil, ctr("p", "c"), noon).Container
	in := &api.PodSandbox{Id: "p", Labels: map[string]string{"other": "x"}, Linux: &api.LinuxPodSandbox{CgroupParent: "/a"}}
	lacksOnlyKeys := pod("p")
	lacksOnlyKeys.Labels, lacksOnlyKeys.Annotations = map[string]string{"x": "1"}, map[string]string{"y": "2"}
	wantP, wantC, wantIn, wantKeys := proto.Clone(p1), proto.Clone(c1), proto.Clone(in), proto.Clone(lacksOnlyKeys)

	s.ObservePod(lacksOnlyKeys, noon)
	s.ObservePod(in, noon)
	s.ObservePod(&api.PodSandbox{Id: "p", Linux: &api.LinuxPodSandbox{CgroupsPath: "/b"}}, noon)
	s.ObserveContainer(nil, &api.Container{Id: "c", PodSandboxId: "p", Labels: map[string]string{"l": "1"}}, noon)
	s.Replace([]*api.PodSandbox{{Id: "p", Name: "again"}}, []*api.Container{{Id: "c", PodSandboxId: "p", Name: "again"}}, noon, noon)

	same(t, "first pod", wantP, proto.Message(p1))
	same(t, "first container", wantC, proto.Message(c1))
	same(t, "pod that was handed in", wantIn, proto.Message(in))
	same(t, "pod that lacked only keys", wantKeys, proto.Message(lacksOnlyKeys))
}

func first[V any](v V, _ bool) V { return v }

// BenchmarkObserveContainer shows what completion by reflection costs per event.
func BenchmarkObserveContainer(b *testing.B) {
	for _, bc := range []struct {
		name string
		p    *api.PodSandbox
		c    *api.Container
	}{
		{"complete event", typicalPod(0), typicalContainer(0)},
		{"empty pod and container", &api.PodSandbox{Id: typicalPod(0).GetId()}, &api.Container{Id: typicalContainer(0).GetId()}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			s := store.New()
			s.ObserveCreation(typicalPod(0), typicalContainer(0), noon)
			b.ReportAllocs()
			for b.Loop() {
				s.ObserveContainer(bc.p, bc.c, noon)
			}
		})
	}
}
