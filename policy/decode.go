package policy

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// place is where a field was written.
type place struct {
	file      string
	line      int
	inherited bool
}

// maxProblems bounds the errors reported of one document. Whoever has made more mends these first.
const maxProblems = 100

// document is one document being read: it decodes strictly and collects what is wrong.
type document struct {
	root   *node
	plugin string
	// places maps the path of each field that was written to where.
	places   map[string]place
	problems Problems
	// wrong holds the paths of the fields with an error, around the fields that they lie inside of.
	wrong, around map[string]bool
	// errors counts the errors, those beyond maxProblems included.
	errors int
}

func newDocument(root *node, plugin string) *document {
	return &document{root: root, plugin: plugin, places: map[string]place{}, wrong: map[string]bool{}, around: map[string]bool{}}
}

// closedSet is implemented by the value types of which only some values exist.
type closedSet interface{ Values() []string }

// at returns where the field was written; where its nearest parent was if it was not.
func (d *document) at(path string) place {
	for p := path; p != ""; p = parentPath(p) {
		if where, ok := d.places[p]; ok {
			return where
		}
	}
	return place{file: d.root.file, line: d.root.line}
}

// written says whether the field stands in the document itself, as opposed to in the defaults or nowhere.
func (d *document) written(path string) bool {
	where, ok := d.places[path]
	return ok && !where.inherited
}

func parentPath(p string) string {
	return p[:max(strings.LastIndexAny(p, ".["), 0)]
}

func childPath(path, key string) string {
	if strings.ContainsAny(key, ".[]\" ") || key == "" || printable(key) != key {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func indexPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// errorf reports an error at the field.
func (d *document) errorf(path, remedy, format string, args ...any) {
	d.report(Error, path, remedy, fmt.Sprintf(format, args...))
}

// warnf reports a warning at the field.
func (d *document) warnf(path, remedy, format string, args ...any) {
	d.report(Warning, path, remedy, fmt.Sprintf(format, args...))
}

func (d *document) report(s Severity, path, remedy, message string) {
	where := d.at(path)
	if s == Error {
		d.wrong[path] = true
		for p := path; p != ""; p = parentPath(p) {
			d.around[p] = true
		}
		switch d.errors++; {
		case d.errors == maxProblems:
			path, message, remedy = "", "the document has more mistakes than are reported", "mend the ones that are, and check again"
		case d.errors > maxProblems:
			return
		}
	}
	d.problems = append(d.problems, Problem{
		File: where.file, Line: where.line, Field: path, Plugin: d.plugin,
		Severity: s, Message: message, Remedy: remedy,
	})
}

// failed says whether an error was reported.
func (d *document) failed() bool { return d.errors > 0 }

// failedUnder says whether an error was reported for the field, one inside it, or one that it is inside of.
func (d *document) failedUnder(path string) bool {
	if d.around[path] {
		return true
	}
	for p := path; p != ""; p = parentPath(p) {
		if d.wrong[p] {
			return true
		}
	}
	return false
}

// note remembers where the field at path was written: in the line of key, its value being n.
func (d *document) note(path string, key, n *node) {
	d.places[path] = place{file: key.file, line: key.line, inherited: n.inherited}
}

// decode reads the node into v, which holds the defaults. check is the field's check tag.
func (d *document) decode(path string, n *node, v reflect.Value, check string) {
	if n.isNull() {
		d.null(path, v.Type())
		return
	}
	switch v.Interface().(type) {
	case Duration:
		d.duration(path, n, v, check)
		return
	case resource.Quantity:
		d.quantity(path, n, v)
		return
	case RawObject:
		d.object(path, n, v)
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.decode(path, n, v.Elem(), check)
		return
	}
	if set, ok := reflect.TypeAssert[closedSet](v); ok {
		d.enum(path, n, v, set.Values())
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(path, n, v)
	case reflect.Map:
		d.mapping(path, n, v)
	case reflect.Slice:
		d.list(path, n, v)
	case reflect.String:
		if text, ok := d.text(path, n); ok {
			v.SetString(text)
		}
	case reflect.Bool:
		if n.kind != scalar || n.tag != "!!bool" {
			d.errorf(path, "write true or false, unquoted", "%s is not a bool", n.say())
			return
		}
		v.SetBool(isTrue(n.text))
	case reflect.Int, reflect.Int64:
		d.integer(path, n, v, check)
	case reflect.Float64:
		d.number(path, n, v, check)
	default:
		// Unreachable: a test walks all types.
		d.errorf(path, "", "type %s has no decoder", v.Type())
	}
}

// say describes the node in a message.
func (n *node) say() string {
	if n.kind != scalar {
		return n.kind.String()
	}
	text := n.text
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:60], "") + "…"
	}
	return strconv.Quote(text)
}

func (d *document) null(path string, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	remedy := "write a value or delete the line"
	switch {
	case strings.HasSuffix(path, ".selector"):
		remedy = "write selector: {} to select everything that the team may see"
	case strings.HasSuffix(path, ".podSelector"):
		remedy = "write podSelector: {} or delete the line; in Kubernetes null selects nothing and {} everything"
	case t.Kind() == reflect.Slice && t != reflect.TypeFor[RawObject]():
		remedy = "write a list, such as [], or delete the line"
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		remedy = "write a mapping, such as {}, or delete the line"
	}
	d.errorf(path, remedy, "the value is missing (null)")
}

func (d *document) wantKind(path string, n *node, want kind) bool {
	if n.kind == want {
		return true
	}
	remedy := "write one value, such as a text or number"
	switch {
	case want == sequence && n.kind == scalar && len(n.text) < 60:
		remedy = fmt.Sprintf("write [%s]", n.text)
	case want == sequence:
		remedy = "write a list, such as [a, b]"
	case want == mapping:
		remedy = "write a mapping, such as {key: value}"
	}
	got := n.kind.String()
	if n.kind == scalar {
		got = n.say()
	}
	d.errorf(path, remedy, "this must be %s, not %s", want, got)
	return false
}

func (d *document) list(path string, n *node, v reflect.Value) {
	if !d.wantKind(path, n, sequence) {
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.values), len(n.values))
	for i, item := range n.values {
		d.note(indexPath(path, i), item, item)
		d.decode(indexPath(path, i), item, out.Index(i), "")
	}
	v.Set(out)
}

func (d *document) mapping(path string, n *node, v reflect.Value) {
	if !d.wantKind(path, n, mapping) {
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(n.keys))
	for i, k := range n.keys {
		at := childPath(path, k.text)
		d.note(at, k, n.values[i])
		key := reflect.New(v.Type().Key()).Elem()
		if set, ok := reflect.TypeAssert[closedSet](key); ok {
			before := len(d.problems)
			d.enum(at, k, key, set.Values())
			if len(d.problems) > before {
				continue
			}
		} else {
			key.SetString(k.text)
		}
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(at, n.values[i], value, "")
		out.SetMapIndex(key, value)
	}
	v.Set(out)
}

func (d *document) structure(path string, n *node, v reflect.Value) {
	if !d.wantKind(path, n, mapping) {
		return
	}
	fields := make(map[string]int, v.NumField())
	names := make([]string, 0, v.NumField())
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = i
		names = append(names, name)
	}
	for i, k := range n.keys {
		at := childPath(path, k.text)
		d.note(at, k, n.values[i])
		f, ok := fields[k.text]
		if !ok {
			what := "field"
			if v.Type() == reflect.TypeFor[TimeoutsSpec]() {
				what = "event or timeout"
			}
			d.errorf(at, didYouMean(k.text, names), "unknown %s %q", what, k.text)
			continue
		}
		d.decode(at, n.values[i], v.Field(f), v.Type().Field(f).Tag.Get("check"))
	}
}
