package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

func TestTheLineOfAManualActionHasOnlyWhatBelongsToIt(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := jsonLog(t, &b)
	sink := logTo(log)
	for _, c := range []struct {
		event supervisor.ManualAction
		want  string
	}{
		{supervisor.ManualAction{Plugin: "gpu-env", Action: "trip", UID: 1000}, `"action":"trip","plugin":"gpu-env","uid":1000}`},
		{supervisor.ManualAction{Action: "bypass", For: 10 * time.Minute}, `"action":"bypass","for":"10m0s","uid":0}`},
		{supervisor.ManualAction{Action: "bypass off"}, `"action":"bypass off","uid":0}`},
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

func TestTheLogSaysWhenTheAuditIsNotWrittenAndWhenItIsAgain(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := jsonLog(t, &b)
	sink := logTo(log)
	sink(auditProblem(errors.New("no space left on device"), 3))
	sink(auditProblem(nil, 3))
	for _, want := range []string{`"msg":"audit is not written","error":"no space left on device","lost":3}`, `"msg":"audit is written again","lost":3}`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}
