package recording_test

import (
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

func event() *recording.Event {
	return &recording.Event{
		Name: "CreateContainer", Time: time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC),
		Pod: &api.PodSandbox{
			Id: "p", Name: "job", Namespace: "ml", Labels: map[string]string{"app": "x"},
			Annotations: map[string]string{
				"team": "a", "db-password": "hunter22", "note": "see https://u:hunter22@host/", "kubectl.kubernetes.io/last-applied-configuration": `{"env":"hunter22"}`,
			},
		},
		Container: &api.Container{
			Id: "c", Name: "main", Env: []string{"PW=hunter22", "EMPTY=", "BARE"},
			Args:  []string{"run", "--token", "hunter22", "--token=hunter22", "--secret-file", "--verbose", "eyJhbGciOiJIUzI1NiJ9.hunter22", "plain"},
			Hooks: &api.Hooks{Prestart: []*api.Hook{{Path: "/h", Env: []string{"K=hunter22"}, Args: []string{"h", "api_key=hunter22"}}}},
		},
		Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(7)}},
	}
}

func TestAnEventSurvivesItsFile(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*recording.Event{
		"a creation":        event(),
		"a synchronization": {Name: "Synchronize", Redacted: true, Pods: []*api.PodSandbox{{Id: "p"}, {Id: "q"}}, Containers: []*api.Container{{Id: "c"}}},
		"a pod's":           {Name: "UpdatePodSandbox", Pod: &api.PodSandbox{Id: "p"}, Overhead: &api.LinuxResources{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "\n") {
				t.Error("it has more than one line")
			}
			got, err := recording.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFileThatIsNoEventIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"":                          "read the event: EOF",
		"{}":                        `"" is not an event of NRI`,
		`{"event":"Create"}`:        `"Create" is not an event of NRI; write, for example, CreateContainer`,
		`{"event":"x","evnt":1}`:    `unknown field "evnt"`,
		`{"event":"StopContainer"}`: "pod is missing",
		`{"event":"StopContainer","pod":{"id":1}}`: "pod: ",
		`{"event":"StopContainer","pod":{}} {}`:    "more than one",
	} {
		if _, err := recording.Decode([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", data, err, want)
		}
	}
	if _, err := recording.Decode([]byte(`{"event":"StopContainer","pod":{"id":"p","newer":1}}`)); err != nil {
		t.Errorf("a newer NRI: %v", err)
	}
}

func TestNoSecretIsLeftInARedactedEvent(t *testing.T) {
	t.Parallel()
	e := event()
	r := recording.Redact(e)
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hunter22") {
		t.Errorf("a secret is in %s", data)
	}
	if diff := cmp.Diff(event(), e, protocmp.Transform()); diff != "" {
		t.Errorf("the original is changed:\n%s", diff)
	}
	want := event()
	want.Redacted = true
	for k := range want.Pod.Annotations {
		if k != "team" {
			want.Pod.Annotations[k] = recording.Redacted
		}
	}
	want.Container.Env = []string{"PW=REDACTED", "EMPTY=REDACTED", "BARE"}
	want.Container.Args = []string{"run", "--token", "REDACTED", "--token=REDACTED", "--secret-file", "--verbose", "REDACTED", "plain"}
	want.Container.Hooks.Prestart[0].Env, want.Container.Hooks.Prestart[0].Args = []string{"K=REDACTED"}, []string{"h", "api_key=REDACTED"}
	if diff := cmp.Diff(want, r, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}
