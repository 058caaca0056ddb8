package policy

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// place is where a field was written.
type place struct {
	file      string
	line      int
	inherited bool
}

// document is one document being read: it decodes strictly and collects what is wrong.
type document struct {
	root   *node
	plugin string
	// places maps the path of each field that was written to where.
	places   map[string]place
	problems Problems
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
	if strings.ContainsAny(key, ".[]\" \n") || key == "" {
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
	d.problems = append(d.problems, Problem{
		File: where.file, Line: where.line, Field: path, Plugin: d.plugin,
		Severity: s, Message: message, Remedy: remedy,
	})
}

// failed says whether an error was reported.
func (d *document) failed() bool { return len(d.problems.Errors()) > 0 }

// failedUnder says whether an error was reported for the field, one inside it, or one that it is inside of.
func (d *document) failedUnder(path string) bool {
	for _, p := range d.problems {
		if p.Severity == Error && p.Field != "" && (contains(p.Field, path) || contains(path, p.Field)) {
			return true
		}
	}
	return false
}

// contains says whether the inner path is the outer one or lies inside it.
func contains(outer, inner string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
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

// text reads a string. What YAML takes for a number or a bool must be quoted.
func (d *document) text(path string, n *node) (string, bool) {
	if !d.wantKind(path, n, scalar) {
		return "", false
	}
	if n.tag == "!!str" {
		if strings.ContainsRune(n.text, 0) {
			d.errorf(path, "remove it", "the text holds a NUL byte")
			return "", false
		}
		return n.text, true
	}
	quoted := n.text
	key := path[strings.LastIndexByte(path, '.')+1:]
	if key == "index" && len(quoted) == 1 {
		quoted = "0" + quoted
	}
	remedy := "write " + strconv.Quote(quoted)
	if !strings.HasSuffix(key, "]") {
		remedy = fmt.Sprintf("write %s: %q", key, quoted)
	}
	d.errorf(path, remedy, "%s must be quoted, since YAML takes it for something else than text", n.text)
	return "", false
}

func (d *document) enum(path string, n *node, v reflect.Value, known []string) {
	text, ok := d.text(path, n)
	if !ok {
		return
	}
	if slices.Contains(known, text) {
		v.SetString(text)
		return
	}
	what := "value"
	switch v.Interface().(type) {
	case EventName:
		what = "event"
	case Grant:
		what = "field"
	}
	d.errorf(path, didYouMean(text, known), "unknown %s %q", what, text)
}

func (d *document) duration(path string, n *node, v reflect.Value, check string) {
	if n.kind == scalar && (n.tag == "!!int" || n.tag == "!!float") {
		d.errorf(path, fmt.Sprintf("write %ss for seconds or %sms for milliseconds", n.text, n.text), "%s has no unit", n.text)
		return
	}
	text, ok := d.text(path, n)
	if !ok {
		return
	}
	if text == "" && strings.Contains(check, "optional") {
		v.SetInt(0)
		return
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		d.errorf(path, `write a duration such as "500ms", "10s" or "1m30s"`, "%q is not a duration", text)
		return
	}
	switch {
	case value < 0:
		d.errorf(path, "write a positive duration", "the duration %s is negative", value)
	case value == 0 && strings.Contains(check, "positive"):
		d.errorf(path, "write a duration above 0s, or delete the line for the default", "the duration is zero")
	default:
		v.SetInt(int64(value))
	}
}

func (d *document) quantity(path string, n *node, v reflect.Value) {
	if !d.wantKind(path, n, scalar) {
		return
	}
	q, err := resource.ParseQuantity(n.text)
	if err != nil {
		d.errorf(path, "write a quantity such as 128Mi, 500m or 64", "%q is not a quantity", n.text)
		return
	}
	if q.Sign() <= 0 {
		d.errorf(path, "write a quantity above 0", "the quantity %s is not positive", n.text)
		return
	}
	_ = q.String() // caches the text, so that later readers do not write
	v.Set(reflect.ValueOf(q))
}

func (d *document) object(path string, n *node, v reflect.Value) {
	if !d.wantKind(path, n, mapping) {
		return
	}
	raw, err := rawJSON(n)
	if err != nil {
		p := Problem{Message: err.Error()}
		errors.As(err, &p)
		p.Field, p.Plugin = path, d.plugin
		d.problems = append(d.problems, p)
		return
	}
	if len(n.keys) == 0 {
		raw = nil
	}
	v.SetBytes(raw)
}

func (d *document) integer(path string, n *node, v reflect.Value, check string) {
	i, err := parseInt(n.text)
	limit := int64(math.MaxInt32)
	if v.Kind() == reflect.Int64 {
		limit = math.MaxInt64 - 1
	}
	if n.kind != scalar || n.tag != "!!int" || err != nil || i > limit || i < -limit-1 {
		d.errorf(path, "write a whole number, unquoted", "%s is not a whole number of at most %d", n.say(), limit)
		return
	}
	if strings.Contains(check, "positive") && i < 1 {
		d.errorf(path, "write 1 or more", "%d is less than 1", i)
		return
	}
	v.SetInt(i)
}

func (d *document) number(path string, n *node, v reflect.Value, check string) {
	f, err := parseFloat(n.text)
	if n.kind != scalar || (n.tag != "!!int" && n.tag != "!!float") || err != nil {
		d.errorf(path, "write a number such as 0.5, unquoted", "%s is not a number", n.say())
		return
	}
	switch {
	case check == "ratio" && !(f > 0 && f <= 1):
		d.errorf(path, "write a number above 0 and up to 1", "%s is outside (0, 1]", n.text)
	case check == "ratioOrZero" && !(f >= 0 && f <= 1):
		d.errorf(path, "write a number from 0 to 1", "%s is outside [0, 1]", n.text)
	default:
		v.SetFloat(f)
	}
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
