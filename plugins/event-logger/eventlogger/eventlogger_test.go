package eventlogger_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/plugins/event-logger/eventlogger"
)

func TestEachEventIsOneLineThatNamesPodAndContainer(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	p := eventlogger.New(slog.New(slog.NewJSONHandler(&buf, nil)))
	mask, err := p.Configure(t.Context(), `{"events": ["CreateContainer"], "labels": true}`, "containerd", "v2")
	if err != nil {
		t.Fatal(err)
	}
	if got := mask.PrettyString(); got != "CreateContainer" {
		t.Errorf("subscribed to %q", got)
	}
	buf.Reset()
	pod := &api.PodSandbox{Id: "p1", Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}}
	if _, _, err := p.CreateContainer(t.Context(), pod, &api.Container{Id: "c1", Name: "main"}); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(buf.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, buf.String())
	}
	delete(got, "time")
	want := map[string]any{
		"level": "INFO", "msg": "CreateContainer", "pod": "default/web", "podID": "p1",
		"labels": map[string]any{"app": "web"}, "container": "main", "containerID": "c1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnUnknownEventOrFieldIsAnError(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"events": ["Boot"]}`, `{"event": []}`, `[`} {
		p := eventlogger.New(slog.New(slog.DiscardHandler))
		if _, err := p.Configure(t.Context(), config, "", ""); err == nil || !strings.HasPrefix(err.Error(), "read config: ") {
			t.Errorf("%s: got %v", config, err)
		}
	}
}
