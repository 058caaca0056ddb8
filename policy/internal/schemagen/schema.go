package schemagen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// durationPattern is what time.ParseDuration accepts, without a sign; empty where a default is meant.
const durationPattern = `^(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$|^0$`

// Document describes a document to render.
type Document struct {
	// ID is the schema's $id, Title its title.
	ID, Title string
	// Kind is the document's kind.
	Kind string
	// Spec is the spec's value with all defaults; Parts are types that fields refer to by their schema tag.
	Spec  any
	Parts map[string]any
	// Required are the spec's required fields.
	Required []string
	// Metadata says that the document has a required metadata.name.
	Metadata bool
}

// generator renders types with their comments.
type generator struct {
	comments Comments
	parts    map[string]any
}

// object is one JSON object. encoding/json sorts its keys, so the bytes are stable.
type object = map[string]any

// Generate renders the document's schema, indented, with a newline at the end.
func Generate(d Document, comments Comments) ([]byte, error) {
	g := &generator{comments: comments, parts: d.Parts}
	spec, err := g.render(reflect.ValueOf(d.Spec), "")
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", d.Kind, err)
	}
	required := []string{"apiVersion", "kind"}
	properties := object{
		"apiVersion": object{"const": policy.APIVersion},
		"kind":       object{"const": d.Kind},
		"spec":       spec,
	}
	if len(d.Required) > 0 {
		spec["required"] = d.Required
		required = append(required, "spec")
	}
	if d.Metadata {
		properties["metadata"] = object{
			"type": "object", "additionalProperties": false, "required": []string{"name"},
			"properties": object{"name": object{
				"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9-]{0,62}$",
				"description": comments["pluginMetadata.Name"],
			}},
		}
		required = append(required, "metadata")
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": d.ID, "title": d.Title,
		"type": "object", "additionalProperties": false, "properties": properties, "required": required,
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", d.Kind, err)
	}
	return out.Bytes(), nil
}

// render renders the value's type; the value is the default. check is the field's check tag.
func (g *generator) render(v reflect.Value, check string) (object, error) {
	switch v.Interface().(type) {
	case policy.Duration:
		pattern := durationPattern
		if strings.Contains(check, "optional") {
			pattern += "|^$"
		}
		return object{"type": "string", "pattern": pattern}, nil
	case resource.Quantity:
		return object{"type": []string{"string", "number"}}, nil
	case policy.RawObject:
		return object{"type": "object"}, nil
	}
	if set, ok := reflect.TypeAssert[interface{ Values() []string }](v); ok && v.Kind() == reflect.String {
		return object{"type": "string", "enum": set.Values()}, nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		inner := v
		if v.IsNil() {
			inner = reflect.New(v.Type().Elem())
		}
		return g.render(inner.Elem(), check)
	case reflect.Struct:
		return g.structure(v)
	case reflect.Slice:
		items, err := g.render(reflect.New(v.Type().Elem()).Elem(), "")
		return object{"type": "array", "items": items}, err
	case reflect.Map:
		return g.mapping(v)
	case reflect.String:
		return object{"type": "string"}, nil
	case reflect.Bool:
		return object{"type": "boolean"}, nil
	case reflect.Int, reflect.Int64:
		out := object{"type": "integer"}
		if check == "positive" {
			out["minimum"] = 1
		}
		return out, nil
	case reflect.Float64:
		out := object{"type": "number"}
		switch check {
		case "ratio":
			out["exclusiveMinimum"], out["maximum"] = 0, 1
		case "ratioOrZero":
			out["minimum"], out["maximum"] = 0, 1
		}
		return out, nil
	default:
		return nil, fmt.Errorf("no schema for type %s", v.Type())
	}
}

func (g *generator) mapping(v reflect.Value) (object, error) {
	value, err := g.render(reflect.New(v.Type().Elem()).Elem(), "")
	if err != nil {
		return nil, err
	}
	out := object{"type": "object", "additionalProperties": value}
	if set, ok := reflect.TypeAssert[interface{ Values() []string }](reflect.New(v.Type().Key()).Elem()); ok {
		out["propertyNames"] = object{"enum": set.Values()}
	}
	return out, nil
}

func (g *generator) structure(v reflect.Value) (object, error) {
	properties := object{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		value := v.Field(i)
		if part, ok := g.parts[field.Tag.Get("schema")]; ok {
			value = reflect.ValueOf(part)
		}
		p, err := g.render(value, field.Tag.Get("check"))
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", v.Type().Name(), field.Name, err)
		}
		if d := g.describe(v, field.Name, name); d != "" {
			p["description"] = d
		}
		if fallback, ok := defaultOf(v.Field(i), options); ok {
			p["default"] = fallback
		}
		properties[name] = p
	}
	return object{"type": "object", "additionalProperties": false, "properties": properties}, nil
}

// describe is the field's doc comment. Kubernetes' own types carry theirs in SwaggerDoc.
func (g *generator) describe(v reflect.Value, field, name string) string {
	if s, ok := reflect.TypeAssert[interface{ SwaggerDoc() map[string]string }](v); ok {
		return s.SwaggerDoc()[name]
	}
	return g.comments[v.Type().Name()+"."+field]
}

// defaultOf is the field's default; there is none when it is empty, or a struct whose fields have theirs.
func defaultOf(v reflect.Value, options string) (any, bool) {
	omitted := slices.ContainsFunc(strings.Split(options, ","), func(o string) bool { return strings.HasPrefix(o, "omit") })
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[resource.Quantity]() || v.Kind() == reflect.Pointer || (omitted && v.IsZero()) {
		return nil, false
	}
	if v.Kind() == reflect.String && v.Len() == 0 {
		return nil, false
	}
	return v.Interface(), true
}
