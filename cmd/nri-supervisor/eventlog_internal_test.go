package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

func TestTheLineOfAManualActionHasOnlyWhatBelongsToIt(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log, err := newLogger(&b, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	sink := logTo(log)
	for _, c := range []struct {
		event supervisor.ManualAction
		want  string
	}{
		{supervisor.ManualAction{Plugin: "gpu-env", Action: "trip", UID: 1000}, `"action":"trip","plugin":"gpu-env","uid":1000}`},
		{supervisor.ManualAction{Action: "bypass", For: 10 * time.Minute}, `"action":"bypass","for":"10m0s","uid":0}`},
		{supervisor.ManualAction{Action: "bypass"}, `"action":"bypass off","uid":0}`},
		{supervisor.ManualAction{Action: "bypass over"}, `"action":"bypass over"}`},
	} {
		b.Reset()
		sink(c.event)
		_, got, _ := strings.Cut(b.String(), `"msg":"manual action",`)
		if diff := cmp.Diff(c.want+"\n", got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.event, diff)
		}
	}
}
