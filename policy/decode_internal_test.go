package policy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// walkTypes visits every type that a document can hold, with the path that leads to it.
func walkTypes(t reflect.Type, path string, visit func(path string, t reflect.Type)) {
	visit(path, t)
	if t == reflect.TypeFor[resource.Quantity]() || t == reflect.TypeFor[RawObject]() {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		walkTypes(t.Elem(), path+"[]", visit)
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			walkTypes(f.Type, path+"."+name, visit)
		}
	}
}

func TestEveryTypeOfTheDocumentsHasADecoder(t *testing.T) {
	t.Parallel()
	for _, doc := range []reflect.Type{reflect.TypeFor[supervisorDocument](), reflect.TypeFor[pluginDocument]()} {
		walkTypes(doc, "", func(path string, typ reflect.Type) {
			// A value of the wrong kind is refused by every decoder, unless there is none.
			d := newDocument(&node{}, "")
			d.decode("x", &node{kind: scalar, tag: "!!str", text: "\x00"}, reflect.New(typ).Elem(), "")
			if len(d.problems) != 1 || strings.Contains(d.problems[0].Message, "has no decoder") {
				t.Errorf("%s of type %s: %v", path, typ, d.problems)
			}
		})
	}
}

func TestEveryFieldOfTheDocumentsHasACamelCaseNameThatIsUnique(t *testing.T) {
	t.Parallel()
	for _, doc := range []reflect.Type{reflect.TypeFor[supervisorDocument](), reflect.TypeFor[pluginDocument]()} {
		walkTypes(doc, "", func(path string, typ reflect.Type) {
			if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[resource.Quantity]() {
				return
			}
			seen := map[string]bool{}
			for f := range typ.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name == "" || seen[name] || strings.ContainsAny(name, "_-") {
					t.Errorf("%s: field %s has the name %q", path, f.Name, name)
				}
				seen[name] = true
			}
		})
	}
}

func TestEveryEventHasATimeoutOfItsOwn(t *testing.T) {
	t.Parallel()
	for i, name := range EventNames() {
		var spec TimeoutsSpec
		text := `{"` + string(name) + `": 1}`
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		if got := *spec.perEvent(name.Event()); got != 1 {
			t.Errorf("event %d, %s: perEvent returns another field", i, name)
		}
	}
}

func TestPlacesOfFieldsThatWereNotWrittenAreTheirParents(t *testing.T) {
	t.Parallel()
	d := &document{root: &node{file: "f", line: 1}, places: map[string]place{
		"spec":                 {file: "f", line: 4},
		`spec.teams["a.b[0]"]`: {file: "f", line: 7},
		"spec.list[2]":         {file: "g", line: 9},
	}}
	for path, want := range map[string]int{
		"": 1, "metadata.name": 1, "spec": 4, "spec.index": 4, "spec.list[1].x": 4, "spec.list[2].x.y": 9, `spec.teams["a.b[0]"].contact`: 7,
	} {
		if got := d.at(path).line; got != want {
			t.Errorf("at(%q) = line %d, want %d", path, got, want)
		}
	}
}
