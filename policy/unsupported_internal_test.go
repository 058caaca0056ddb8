package policy

import (
	"reflect"
	"strings"
	"testing"
)

func TestEachFieldThatIsNotEnforcedIsRefused(t *testing.T) {
	t.Parallel()
	if rows := unsupported(); len(rows) > 0 {
		t.Errorf("%d fields are in the schema and not enforced: give each a value here", len(rows))
	}
	for _, c := range []struct {
		row   unsupportedField // as if it were one
		value string           // that is not the default
	}{
		{unsupportedField{path: "spec.tracing", missing: "tracing"}, "tracing: {ratio: 1}"},
		{unsupportedField{path: "spec.teams.*.laneShare", missing: "lane shares"}, "teams: {t: {laneShare: {ratio: 0}}}"},
	} {
		docs, problems := parseDocuments(SourceFile{Path: "f", Data: []byte("spec: {" + c.value + "}")})
		if len(problems) > 0 || len(docs) != 1 {
			t.Errorf("%s: %v", c.row.path, problems)
			continue
		}
		d := newDocument(docs[0], "")
		spec := defaultSupervisorSpec()
		d.decode("spec", docs[0].get("spec"), reflect.ValueOf(&spec).Elem(), "")
		d.rejectUnsupported([]unsupportedField{c.row}, "spec", spec, defaultSupervisorSpec())
		want := strings.ReplaceAll(c.row.path, "*", "t") + ": not supported yet by this version: " + c.row.missing
		if len(d.problems) != 1 || !strings.Contains(d.problems[0].Error(), want) {
			t.Errorf("%s: %v", c.row.path, d.problems)
		}
	}
}
