package policy_test

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// What an expression looked at may be a secret: no error of it quotes a value, in a rule, in a decision or in its explanation.
func TestAnExpressionThatCannotBeEvaluatedQuotesNoValue(t *testing.T) {
	t.Parallel()
	pod := &api.PodSandbox{Namespace: "ml-a"}
	for _, tt := range []struct{ name, expression, value, want string }{
		{"a key", `{"debug": true}[VALUE]`, "hunter2secret", "no such key"},
		{"a regular expression", `VALUE.matches(VALUE)`, "hunter2(secret", "bad regular expression"},
		{"a number", `int(VALUE) == 1`, "hunter2secret", "type error"},
		{"a duration", `duration(VALUE) == duration("1s")`, "hunter2secret", "type error"},
		{"an index", `[true][int(VALUE)]`, "22272227", "index out of range"},
		{"an overflow", `int(VALUE) * 9223372036854775807 == 1`, "22272227", "overflow or division by zero"},
		{"a type", `dyn(VALUE) + 1 == 1`, "hunter2secret", "type error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			forbids := func(text, where string) {
				if strings.Contains(text, "hunter") || strings.Contains(text, "2227") || !strings.Contains(text, tt.want) {
					t.Errorf("%s: %q, want %q and no value", where, text, tt.want)
				}
			}
			rule := one(t, "permissions: {rules: [{name: r, expression: '"+strings.ReplaceAll(tt.expression, "VALUE", "reply.adjust.env[0].value")+"'}]}")
			forbids(denials(rule, adjusting(&api.ContainerAdjustment{Env: []*api.KeyValue{{Key: "A", Value: tt.value}}})), "rule")

			p := one(t, conditions(strings.ReplaceAll(tt.expression, "VALUE", "container.env[0]")))
			c := &api.Container{Env: []string{tt.value}}
			d := p.MatchContainer(pod, c)
			if d.Err == nil {
				t.Fatalf("decided: %+v", d)
			}
			forbids(d.Err.Error(), "condition")
			for _, r := range p.ExplainContainer(pod, c) {
				if r.Given {
					forbids(r.Detail+r.Err.Error(), "explanation")
				}
			}
		})
	}
}
