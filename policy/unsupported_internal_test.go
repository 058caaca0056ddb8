package policy

import (
	"reflect"
	"strings"
	"testing"
)

// notDefault gives, for each row of the table of unsupported fields, a value that is not the default.
func notDefault(kind string) map[string]string {
	if kind == KindSupervisor {
		return map[string]string{
			"spec.tracing": "tracing: {ratio: 1}",
		}
	}
	return nil
}

func TestEachFieldThatIsNotEnforcedIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{KindSupervisor, KindPlugin} {
		values := notDefault(kind)
		if len(values) != len(unsupported(kind)) {
			t.Errorf("%s: %d rows, %d values", kind, len(unsupported(kind)), len(values))
		}
		for _, row := range unsupported(kind) {
			docs, problems := parseDocuments(SourceFile{Path: "f", Data: []byte("spec: {" + values[row.path] + "}")})
			if len(problems) > 0 || len(docs) != 1 {
				t.Errorf("%s: %v", row.path, problems)
				continue
			}
			d := newDocument(docs[0], "")
			if kind == KindSupervisor {
				spec := defaultSupervisorSpec()
				d.decode("spec", docs[0].get("spec"), reflect.ValueOf(&spec).Elem(), "")
				d.rejectUnsupported(kind, "spec", spec, defaultSupervisorSpec())
			} else {
				spec := defaultPluginSpec()
				d.decode("spec", docs[0].get("spec"), reflect.ValueOf(&spec).Elem(), "")
				d.rejectUnsupported(kind, "spec", spec, defaultPluginSpec())
			}
			want := strings.ReplaceAll(row.path, "*", "t") + ": not supported yet by this version: " + row.missing
			if len(d.problems) != 1 || !strings.Contains(d.problems[0].Error(), want) {
				t.Errorf("%s: %v", row.path, d.problems)
			}
		}
	}
}
