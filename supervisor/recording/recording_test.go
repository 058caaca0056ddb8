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
	want.Pod.Annotations = map[string]string{"team": "a", "db-password": recording.Redacted, "note": recording.Redacted}
	want.Container.Env = []string{"PW=REDACTED", "EMPTY=REDACTED", "BARE"}
	want.Container.Args = []string{"run", "--token", "REDACTED", "--token=REDACTED", "--secret-file", "--verbose", "REDACTED", "plain"}
	want.Container.Hooks.Prestart[0].Env, want.Container.Hooks.Prestart[0].Args = []string{"K=REDACTED"}, []string{"h", "api_key=REDACTED"}
	if diff := cmp.Diff(want, r, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// TestASecretInsideAnAnnotationsValueIsTakenOut: in JSON at any depth, in JSON that is a text in JSON, in YAML, in base64, and as a long random word.
func TestASecretInsideAnAnnotationsValueIsTakenOut(t *testing.T) {
	t.Parallel()
	const gone = recording.Redacted
	deep := `"hunter22"`
	for range 40 {
		deep = `{"a":` + deep + `}`
	}
	for value, want := range map[string]string{
		`{"user":"u","password":"hunter22","port":80}`:                          `{"password":"REDACTED","port":80,"user":"u"}`,
		`{"a":[{"b":{"apiKey":{"x":["hunter22"]}}}],"n":1}`:                     `{"a":[{"b":{"apiKey":"REDACTED"}}],"n":1}`,
		`[{"name":"PW","value":"hunter22"},{"name":"x"}]`:                       `[{"name":"PW","value":"REDACTED"},{"name":"x"}]`,
		`{"env":{"PW":"hunter22"},"x":"y"}`:                                     `{"env":{"PW":"REDACTED"},"x":"y"}`,
		`{"env":["PW=hunter22","name"],"x":"y"}`:                                `{"env":["PW=REDACTED","REDACTED"],"x":"y"}`,
		`["PW=hunter22"]`:                                                       `["PW=REDACTED"]`,
		`{"inner":"{\"token\":\"hunter22\",\"x\":1}"}`:                          `{"inner":"{\"token\":\"REDACTED\",\"x\":1}"}`,
		`{"kubectl.kubernetes.io/last-applied-configuration":"hunter22","x":1}`: `{"x":1}`,
		`"{\"token\":\"hunter22\"}"`:                                            gone,
		`{"note":"see https://u:hunter22@host/"}`:                               `{"note":"REDACTED"}`,
		`{password: hunter22}`:                                                  gone,
		`{"password":"hunter22"`:                                                gone,
		`{"a":1} {"password":"hunter22"}`:                                       gone,
		deep:                                                                    gone, // or whatever is without it
		"user: u\npassword: hunter22\n":                                         gone,
		"- name: PW\n  value: hunter22\n":                                       gone,
		"password=hunter22":                                                     gone,
		"client-secret: 'hunter22'":                                             gone,
		"cGFzc3dvcmQ6IGh1bnRlcjIy":                                              gone, // password: hunter22
		"aHVudGVyMjI=":                                                          gone, // hunter22
		`{"x":"aHVudGVyMjI="}`:                                                  `{"x":"REDACTED"}`,
		"AKIA1234567890abcdEFGH":                                                gone,
		"-----BEGIN PRIVATE KEY-----":                                           gone,
		// What is none stays as it was, byte by byte.
		`{ "cpu": "2", "list": [1, true, null] }`: `{ "cpu": "2", "list": [1, true, null] }`,
		"production":                           "production",
		"system-node-critical":                 "system-node-critical",
		"web-7d4b9c6f5d-x2x9z":                 "web-7d4b9c6f5d-x2x9z",
		"registry.example.com/team/app:v1.2.3": "registry.example.com/team/app:v1.2.3",
		"/opt/nvidia/v12/lib64":                "/opt/nvidia/v12/lib64",
		"2026-11-30T03:00:00.000000000Z":       "2026-11-30T03:00:00.000000000Z",
		"5d0c1a2b5d0c1a2b5d0c1a2b":             "5d0c1a2b5d0c1a2b5d0c1a2b", // the pod's own id
		"true":                                 "true",
		"":                                     "",
	} {
		e := &recording.Event{
			Name: "CreateContainer", Pod: &api.PodSandbox{Id: "5d0c1a2b5d0c1a2b5d0c1a2b", Annotations: map[string]string{"a": value}},
			Container: &api.Container{Id: "c", Annotations: map[string]string{"a": value}, Args: []string{"--config=" + value}},
		}
		r := recording.Redact(e)
		got := r.Pod.GetAnnotations()["a"]
		if got != r.Container.GetAnnotations()["a"] {
			t.Errorf("%q: %q in the pod, %q in the container", value, got, r.Container.GetAnnotations()["a"])
		}
		if value == deep {
			want = got
		}
		if got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hunter22", "aHVudGVyMjI", "AKIA1234567890abcdEFGH", "cGFzc3dvcmQ6IGh1bnRlcjIy"} {
			if strings.Contains(string(data), secret) {
				t.Errorf("%q: a secret is in %s", value, data)
			}
		}
	}
}
