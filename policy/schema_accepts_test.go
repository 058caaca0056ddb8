package policy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// violations checks a value against the keywords that the generator writes, and no others.
func violations(schema map[string]any, value any, at string) []string {
	var out []string
	bad := func(format string, args ...any) { out = append(out, at+": "+fmt.Sprintf(format, args...)) }
	kind := map[string]bool{}
	switch v := value.(type) {
	case map[string]any:
		kind["object"] = true
		properties, _ := schema["properties"].(map[string]any)
		for key, inner := range v {
			if names, ok := schema["propertyNames"].(map[string]any); ok && !slices.Contains(names["enum"].([]any), any(key)) {
				bad("the name %q is not allowed", key)
			}
			if p, ok := properties[key].(map[string]any); ok {
				out = append(out, violations(p, inner, at+"."+key)...)
			} else if more, ok := schema["additionalProperties"].(map[string]any); ok {
				out = append(out, violations(more, inner, at+"."+key)...)
			} else if schema["additionalProperties"] == false {
				bad("unknown field %q", key)
			}
		}
		required, _ := schema["required"].([]any)
		for _, key := range required {
			if _, ok := v[key.(string)]; !ok {
				bad("%s is missing", key)
			}
		}
	case []any:
		kind["array"] = true
		for i, item := range v {
			out = append(out, violations(schema["items"].(map[string]any), item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case string:
		kind["string"] = true
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v) {
			bad("%q does not match %s", v, pattern)
		}
		if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, any(v)) {
			bad("%q is not one of %v", v, enum)
		}
		if want, ok := schema["const"]; ok && want != any(v) {
			bad("%q is not %v", v, want)
		}
	case float64:
		kind["number"], kind["integer"] = true, v == float64(int64(v))
		if least, ok := schema["minimum"].(float64); ok && v < least {
			bad("%v is below %v", v, least)
		}
		if most, ok := schema["maximum"].(float64); ok && v > most {
			bad("%v is above %v", v, most)
		}
		if bound, ok := schema["exclusiveMinimum"].(float64); ok && v <= bound {
			bad("%v is not above %v", v, bound)
		}
	case bool:
		kind["boolean"] = true
	}
	var want []any
	switch t := schema["type"].(type) {
	case string:
		want = []any{t}
	case []any:
		want = t
	default:
		return out
	}
	if !slices.ContainsFunc(want, func(w any) bool { return kind[w.(string)] }) {
		bad("%v is not of type %v", value, want)
	}
	return out
}

// againstSchema checks each document of a file against the schema of its kind.
func againstSchema(t *testing.T, data []byte) []string {
	t.Helper()
	var out []string
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc map[string]any
		if err := dec.Decode(&doc); err != nil {
			return out
		}
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var value map[string]any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		name, ok := map[any]string{policy.KindSupervisor: "supervisor", policy.KindPlugin: "plugin"}[value["kind"]]
		if !ok {
			out = append(out, "unknown kind")
			continue
		}
		schemaText, err := os.ReadFile(filepath.Join("schema", name+".schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		var schema map[string]any
		if err := json.Unmarshal(schemaText, &schema); err != nil {
			t.Fatal(err)
		}
		out = append(out, violations(schema, value, name)...)
	}
}

func TestTheSchemasAcceptWhatIsValid(t *testing.T) {
	t.Parallel()
	full := read(t, "full.yaml")
	if got := againstSchema(t, full.Data); got != nil {
		t.Errorf("full.yaml:\n%s", strings.Join(got, "\n"))
	}
	c := parse(t, supervisorYAML, plugin("p", conditions("true"), "config: {a: 1}", "delivery: {PostStartContainer: sync}", "permissions: {adjust: [Env, cpu]}"))
	supervisor, err := c.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := valid(t, c, "p").Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{supervisor, manifest} {
		if got := againstSchema(t, text); got != nil {
			t.Errorf("%s\n%s", strings.Join(got, "\n"), text)
		}
	}
}

func TestTheSchemasRefuseCommonMistakes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"index-unquoted", "unknown-field", "unknown-field-nested", "unknown-top-level", "selector-missing", "team-missing", "name-underscore",
		"event-unknown", "delivery-unknown-event", "failurepolicy-unknown", "bool-yes", "breaker-ratio", "breaker-failures", "timeout-number",
		"timeout-text", "timeout-negative", "permission-misspelt", "exec-args-number", "null-mapping", "apiversion-wrong",
	} {
		if got := againstSchema(t, read(t, "bad", name+".yaml").Data); got == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
