package policy

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// unsupportedField is a field that the schema holds and this version does not enforce.
type unsupportedField struct {
	// path is the field below the document's root; * stands for each key of a map.
	path string
	// allowed are the values accepted beside the default, as the manifest writes them.
	allowed []string
	// missing says what is not enforced yet.
	missing string
}

// unsupported lists every field of both documents that is not enforced yet: none. A row is added with a field that comes into the schema before it is enforced, and deleted when it is.
func unsupported() []unsupportedField { return nil }

// rejectUnsupported reports each field of the table that was written and is not at its default.
// base is the path of the spec; value and defaults are the decoded spec and the default one.
func (d *document) rejectUnsupported(rows []unsupportedField, base string, value, defaults any) {
	for _, row := range rows {
		names := strings.Split(row.path, ".")
		for _, hit := range expand(base, names[1:], reflect.ValueOf(value), reflect.ValueOf(defaults)) {
			if _, written := d.places[hit.path]; !written || d.failedUnder(hit.path) || hit.same {
				continue
			}
			if slices.Contains(row.allowed, hit.text) {
				continue
			}
			remedy := "delete the line"
			if hit.fallback != "" {
				remedy = "delete the line, or write the default, " + hit.fallback
			}
			d.errorf(hit.path, remedy, "not supported yet by this version: %s", row.missing)
		}
	}
}

// setting is one field found by its path.
type setting struct {
	path string
	// same says that the value is the default.
	same bool
	// text is the value of a string.
	text string
	// fallback is the default, if it is short.
	fallback string
}

// expand follows the names through structs, pointers and maps; * is each key of a map.
func expand(path string, names []string, value, fallback reflect.Value) []setting {
	for value.Kind() == reflect.Pointer && len(names) > 0 {
		if value.IsNil() {
			return nil
		}
		value = value.Elem()
		if fallback.IsValid() && fallback.Kind() == reflect.Pointer {
			fallback = fallback.Elem()
		}
	}
	if len(names) == 0 {
		return []setting{compareSetting(path, value, fallback)}
	}
	if names[0] == "*" {
		var out []setting
		for _, k := range value.MapKeys() {
			out = append(out, expand(childPath(path, k.String()), names[1:], value.MapIndex(k), reflect.Zero(value.Type().Elem()))...)
		}
		return out
	}
	for i := range value.NumField() {
		if name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ","); name == names[0] {
			var below reflect.Value
			if fallback.IsValid() {
				below = fallback.Field(i)
			}
			return expand(childPath(path, name), names[1:], value.Field(i), below)
		}
	}
	return nil
}

func compareSetting(path string, value, fallback reflect.Value) setting {
	s := setting{path: path}
	got, err1 := json.Marshal(value.Interface())
	want := []byte("null")
	var err2 error
	if fallback.IsValid() {
		want, err2 = json.Marshal(fallback.Interface())
	}
	s.same = err1 == nil && err2 == nil && isDefault(string(got), string(want))
	if value.Kind() == reflect.String {
		s.text = value.String()
		if fallback.IsValid() && fallback.String() != "" {
			s.fallback = fallback.String()
		}
	}
	return s
}

// isDefault compares JSON texts; what was left out, an empty list and an empty object are the same.
func isDefault(got, want string) bool {
	empty := func(s string) bool { return s == "null" || s == "[]" || s == "{}" || s == `""` }
	return got == want || (empty(got) && empty(want))
}
