package policy_test

import (
	"testing"

	"github.com/containerd/nri/pkg/api"
)

func TestWhenFollowsTheHooksSchema(t *testing.T) {
	t.Parallel()
	pod := &api.PodSandbox{Annotations: map[string]string{"io.example/gpu": "on", "shared": "pod"}}
	c := &api.Container{
		Args:        []string{"/usr/bin/python3", "train.py"},
		Annotations: map[string]string{"io.example/mode": "fast", "shared": "container"},
		Mounts:      []*api.Mount{{Destination: "/data", Source: "/mnt", Type: "bind"}},
	}
	for _, tt := range []struct {
		when string
		want bool
	}{
		{"{always: true}", true},
		{"{always: false}", false},
		{"{always: true, hasBindMounts: true}", true},
		{"{always: true, hasBindMounts: false}", false},
		{"{hasBindMounts: true}", true},
		{"{hasBindMounts: false}", false},
		{"{always: false, commands: [python]}", false},
		{"{commands: [python]}", true},
		{"{commands: [ruby, 'python\\d']}", true},
		{"{commands: ['^python']}", false},
		{"{commands: [train]}", false}, // the first argument only
		{"{commands: [python], hasBindMounts: true}", true},
		{"{commands: [ruby], hasBindMounts: true}", false},
		{"{annotations: {gpu: on}}", true},
		{"{annotations: {gpu: off}}", false},
		{"{annotations: {gpu: ''}}", true},
		{"{annotations: {mode: '^fast$'}}", true},
		{"{annotations: {gpu: on, mode: fast}}", true},
		{"{annotations: {gpu: on, mode: slow}}", false},
		{"{annotations: {'^io\\.example/': fast}}", true}, // any key that matches will do
		{"{annotations: {shared: container}}", true},
		{"{annotations: {shared: pod}}", false}, // the container's wins
		{"{annotations: {missing: ''}}", false},
		{"{annotations: {gpu: on}, commands: [ruby]}", false},
		{"{annotations: {gpu: on}, commands: [python]}", true},
	} {
		t.Run(tt.when, func(t *testing.T) {
			t.Parallel()
			if got := one(t, "selector: {when: "+tt.when+"}").MatchContainer(pod, c); got.Selected != tt.want {
				t.Errorf("%+v, want selected %v", got, tt.want)
			}
		})
	}
}

func TestAContainerWithoutACommandDoesNotMatchCommands(t *testing.T) {
	t.Parallel()
	p := one(t, "selector: {when: {commands: ['']}}")
	if d := p.MatchContainer(nil, &api.Container{}); d.Selected || d.Err != nil {
		t.Errorf("%+v", d)
	}
}

func TestMountsThatTheNodeAddsAreNoBindMountsOfTheContainer(t *testing.T) {
	t.Parallel()
	const kubelet = "/var/lib/kubelet/pods/1234"
	for _, tt := range []struct {
		name  string
		mount *api.Mount
		want  bool
	}{
		{"hosts", &api.Mount{Destination: "/etc/hosts", Source: kubelet + "/etc-hosts", Type: "bind"}, false},
		{"host name", &api.Mount{Destination: "/etc/hostname", Type: "bind"}, false},
		{"resolver", &api.Mount{Destination: "/etc/resolv.conf", Type: "bind"}, false},
		{"termination log", &api.Mount{Destination: "/dev/termination-log", Type: "bind"}, false},
		{"service account", &api.Mount{Destination: "/var/run/secrets/kubernetes.io/serviceaccount", Type: "bind"}, false},
		{"container mark of CRI-O", &api.Mount{Destination: "/run/.containerenv", Type: "bind"}, false},
		{"the sandbox's shared memory", &api.Mount{Destination: "/dev/shm", Source: "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/1/shm", Type: "bind"}, false},
		{"a volume as shared memory", &api.Mount{Destination: "/dev/shm", Source: kubelet + "/volumes/kubernetes.io~empty-dir/shm", Type: "bind"}, true},
		{"proc", &api.Mount{Destination: "/proc", Type: "proc"}, false},
		{"a volume", &api.Mount{Destination: "/data", Source: kubelet + "/volumes/x", Type: "bind"}, true},
		{"bind by option", &api.Mount{Destination: "/data", Type: "none", Options: []string{"ro", "rbind"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := one(t, "selector: {when: {hasBindMounts: true}}")
			if d := p.MatchContainer(nil, &api.Container{Mounts: []*api.Mount{tt.mount}}); d.Selected != tt.want {
				t.Errorf("%+v, want selected %v", d, tt.want)
			}
		})
	}
}
