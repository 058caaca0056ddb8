package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// requirement is one requirement of a label selector that apimachinery has compiled. Matching it here saves
// the conversions that apimachinery makes for each label; a test holds both against each other.
type requirement struct {
	key    string
	values []string
	// absent is the answer for a pod without the key, and negated turns the answer for one with it.
	absent, negated bool
	// anyValue says that the value does not matter.
	anyValue bool
}

// podLabels is a compiled label selector: all requirements must match. Nil matches everything.
type podLabels []requirement

// newPodLabels takes a compiled selector apart.
func newPodLabels(s labels.Selector) (podLabels, error) {
	compiled, _ := s.Requirements()
	out := make(podLabels, 0, len(compiled))
	for _, r := range compiled {
		q := requirement{key: r.Key(), values: r.ValuesUnsorted()}
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
		case selection.NotEquals, selection.NotIn:
			q.absent, q.negated = true, true
		case selection.Exists:
			q.anyValue = true
		case selection.DoesNotExist:
			q.absent, q.negated, q.anyValue = true, true, true
		case selection.GreaterThan, selection.LessThan:
			return nil, fmt.Errorf("a label selector has no operator %q", r.Operator())
		default:
			return nil, fmt.Errorf("a label selector has no operator %q", r.Operator())
		}
		out = append(out, q)
	}
	return out, nil
}

func (s podLabels) match(pod map[string]string) bool {
	for i := range s {
		if !s[i].match(pod) {
			return false
		}
	}
	return true
}

func (q *requirement) match(pod map[string]string) bool {
	value, has := pod[q.key]
	if !has {
		return q.absent
	}
	return (q.anyValue || slices.Contains(q.values, value)) != q.negated
}

// String renders the requirement as kubectl's -l does.
func (q *requirement) String() string {
	switch {
	case q.anyValue && q.negated:
		return "!" + q.key
	case q.anyValue:
		return q.key
	case q.negated:
		return fmt.Sprintf("%s notin %q", q.key, slices.Sorted(slices.Values(q.values)))
	case len(q.values) == 1:
		return q.key + "=" + q.values[0]
	default:
		return fmt.Sprintf("%s in %q", q.key, slices.Sorted(slices.Values(q.values)))
	}
}

// explain names the first requirement that does not match; all of them when they do.
func (s podLabels) explain(pod map[string]string) string {
	var all strings.Builder
	for i := range s {
		q := &s[i]
		if !q.match(pod) {
			if v, ok := pod[q.key]; ok {
				return fmt.Sprintf("%s: the pod has %s=%s", q, q.key, v)
			}
			return fmt.Sprintf("%s: the pod has no label %s", q, q.key)
		}
		if i > 0 {
			all.WriteString(", ")
		}
		all.WriteString(q.String())
	}
	return all.String()
}

// compileLabels compiles a label selector with Kubernetes' own code. When that refuses, the parts are
// tried in order, so that the message names the first bad one.
func (d *document) compileLabels(path string, s *metav1.LabelSelector) podLabels {
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err == nil {
		var out podLabels
		if out, err = newPodLabels(sel); err == nil {
			return out
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		one := &metav1.LabelSelector{MatchLabels: map[string]string{key: s.MatchLabels[key]}}
		if _, err := metav1.LabelSelectorAsSelector(one); err != nil {
			d.errorf(childPath(path+".matchLabels", key), "write a valid label key and value", "%v", err)
			return nil
		}
	}
	for i, e := range s.MatchExpressions {
		one := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}}
		if _, err := metav1.LabelSelectorAsSelector(one); err != nil {
			d.errorf(indexPath(path+".matchExpressions", i),
				"write key, operator In or NotIn with values, or operator Exists or DoesNotExist without", "%v", err)
			return nil
		}
	}
	d.errorf(path, "write a label selector as in Kubernetes", "%v", err)
	return nil
}
