package supervisor

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
)

// shortestSecret is the length from which on the value of a variable is looked for: shorter ones, such as 1 or on, are no secrets, and would make a text unreadable.
const shortestSecret = 4

// values are the variables, as NAME=VALUE, that the plugins of one event know: the container's, and what other plugins set. No value is ever told. Safe for concurrent use; nil has none.
type values struct {
	mu   sync.Mutex
	envs [][]string
}

func newValues(env []string) *values { return &values{envs: [][]string{env}} }

// learn adds variables.
func (v *values) learn(env []string) {
	if v == nil || len(env) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.envs = append(v.envs, slices.Clone(env)) // a merge may write into its own
}

// learnFrom adds the variables that a message to or from a plugin sets.
func (v *values) learnFrom(message any) {
	var a *api.ContainerAdjustment
	switch m := message.(type) {
	case *api.CreateContainerResponse:
		a = m.GetAdjust()
	case *api.ValidateContainerAdjustmentRequest:
		a = m.GetAdjust()
		v.learn(m.GetContainer().GetEnv())
	}
	env := make([]string, 0, len(a.GetEnv()))
	for _, e := range a.GetEnv() {
		if _, removed := e.IsMarkedForRemoval(); !removed {
			env = append(env, e.GetKey()+"="+e.GetValue())
		}
	}
	v.learn(env)
}

// hide is a text of a plugin's without the values.
func (v *values) hide(text string) string {
	if v == nil || text == "" {
		return oneLine(text)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return withoutValues(text, v.envs...)
}

// hideIn takes the values out of a verdict's words.
func (v *values) hideIn(r *verdict) {
	r.detail = v.hide(r.detail)
	for i := range r.denials {
		r.denials[i].Detail = v.hide(r.denials[i].Detail)
	}
}

// withoutValues is a text of a plugin's for the journal, without the values of variables in it: oneLine, with each value replaced by the name of its variable, also where it is quoted or was cut.
func withoutValues(text string, envs ...[]string) string {
	text = oneLine(text)
	if text == "" {
		return text
	}
	known := secrets(envs)
	var pairs []string
	for _, s := range known {
		if strings.Contains(text, s.value) {
			pairs = append(pairs, s.value, "[value of "+s.name+"]")
		}
	}
	if pairs != nil {
		text = strings.NewReplacer(pairs...).Replace(text)
	}
	parts := strings.Split(text, "…")
	for i := range parts[:len(parts)-1] { // what was made short may end within a value
		cut := 0
		for _, s := range known {
			for n := min(len(s.value), len(parts[i])); n >= max(shortestSecret, cut+1); n-- {
				if strings.HasSuffix(parts[i], s.value[:n]) {
					cut = n
					break
				}
			}
		}
		parts[i] = parts[i][:len(parts[i])-cut]
	}
	return strings.Join(parts, "…")
}

// secret is how the value of a variable may look in a text.
type secret struct{ value, name string }

// secrets lists the values of variables, the longest first: one can be part of another.
func secrets(envs [][]string) []secret {
	var known []secret
	seen := map[string]bool{}
	for _, e := range slices.Concat(envs...) {
		if seen[e] {
			continue
		}
		seen[e] = true
		name, raw, _ := strings.Cut(e, "=")
		plain := strings.Join(strings.Fields(strings.ToValidUTF8(raw, "?")), " ") // as oneLine makes it
		quoted := strings.Trim(strconv.Quote(raw), `"`)                           // as %q makes it
		for _, value := range []string{plain, strings.Join(strings.Fields(quoted), " ")} {
			if len(value) >= shortestSecret {
				known = append(known, secret{value, name})
			}
		}
	}
	slices.SortStableFunc(known, func(a, b secret) int { return cmp.Compare(len(b.value), len(a.value)) })
	return known
}
