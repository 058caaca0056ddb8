package envinjector_test

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/plugins/env-injector/envinjector"
)

func TestAWrongConfigurationSaysWhatToWrite(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ config, want string }{
		"nothing at all":       {"", `set {"env": {"NAME": "value"}}`},
		"an empty object":      {"{}", `set {"env": {"NAME": "value"}}`},
		"an unknown field":     {`{"envs": {"A": "b"}}`, `unknown field "envs"`},
		"a number":             {`{"env": {"A": 3}}`, `is a number: put the value in quotes`},
		"a name with a sign":   {`{"env": {"A=B": "c"}}`, `"A=B" is no name`},
		"text that is no JSON": {`env: A`, `read config: invalid character`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := envinjector.ParseConfig(tt.config)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestVariablesAreSetInOrderAndExistingOnesCanBeKept(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config string
		want   map[string]string
	}{
		"replaced": {`{"env": {"B": "2", "A": "1"}}`, map[string]string{"A": "1", "B": "2"}},
		"kept":     {`{"env": {"B": "2", "A": "1"}, "keepExisting": true}`, map[string]string{"B": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p envinjector.Plugin
			if _, err := p.Configure(t.Context(), tt.config, "", ""); err != nil {
				t.Fatal(err)
			}
			adjust, updates, err := p.CreateContainer(t.Context(), nil, &api.Container{Env: []string{"A=0", "AB=0"}})
			if err != nil || len(updates) > 0 {
				t.Fatalf("updates %v, error %v", updates, err)
			}
			got := map[string]string{}
			last := ""
			for _, kv := range adjust.GetEnv() {
				if kv.GetKey() < last {
					t.Errorf("%q comes after %q", kv.GetKey(), last)
				}
				last = kv.GetKey()
				got[kv.GetKey()] = kv.GetValue()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
