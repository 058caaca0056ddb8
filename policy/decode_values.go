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
	if path == metricsAddress && isPort(quoted) {
		quoted = defaultHost + quoted
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
		var p Problem
		if !errors.As(err, &p) {
			p.Message = err.Error()
		}
		before := len(d.problems)
		d.errorf(path, p.Remedy, "%s", p.Message)
		if len(d.problems) > before && p.Line > 0 {
			d.problems[before].File, d.problems[before].Line = p.File, p.Line
		}
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
