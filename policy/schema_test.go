package policy_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/policy/internal/schemagen"
)

var update = flag.Bool("update", false, "write golden files and schemas anew")

// schemas are the committed schemas by file name.
func schemas() map[string]schemagen.Document {
	supervisor, plugin := policy.DefaultSpecs()
	return map[string]schemagen.Document{
		"supervisor.schema.json": {
			ID: "https://nri-supervisor.dev/schema/v1alpha1/supervisor.schema.json", Title: "nri-supervisor configuration",
			Kind: policy.KindSupervisor, Spec: supervisor, Parts: map[string]any{"PluginSpec": plugin},
		},
		"plugin.schema.json": {
			ID: "https://nri-supervisor.dev/schema/v1alpha1/plugin.schema.json", Title: "nri-supervisor plugin manifest",
			Kind: policy.KindPlugin, Spec: plugin, Required: []string{"team", "index", "selector"}, Metadata: true,
		},
	}
}

func TestTheCommittedSchemasAreCurrent(t *testing.T) {
	t.Parallel()
	comments, err := schemagen.ReadComments(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, doc := range schemas() {
		got, err := schemagen.Generate(doc, comments)
		if err != nil {
			t.Fatal(err)
		}
		compareGolden(t, filepath.Join("schema", name), string(got))
	}
}

func TestEveryFieldOfTheSchemaIsDescribed(t *testing.T) {
	t.Parallel()
	comments, err := schemagen.ReadComments(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, doc := range schemas() {
		data, err := schemagen.Generate(doc, comments)
		if err != nil {
			t.Fatal(err)
		}
		var schema map[string]any
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		walkProperties(schema, "", func(path string, property map[string]any) {
			if slices.Contains([]string{".apiVersion", ".kind", ".metadata", ".spec"}, path) {
				return
			}
			if d, ok := property["description"].(string); !ok || d == "" {
				t.Errorf("%s: %s has no description; write a doc comment", name, path)
			}
		})
	}
}

func walkProperties(schema map[string]any, path string, visit func(string, map[string]any)) {
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, p := range properties {
			property := p.(map[string]any)
			visit(path+"."+name, property)
			walkProperties(property, path+"."+name, visit)
		}
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if s, ok := schema[inner].(map[string]any); ok {
			walkProperties(s, path+"[]", visit)
		}
	}
}

// compareGolden compares with the committed file, or writes it with -update.
func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test ./policy -update", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s is not current; run go test ./policy -update and look at the change (-committed +now):\n%s", path, diff)
	}
}
