package policy_test

import (
	"slices"
	"testing"
)

func TestAnAttachedPluginHasASocketOfItsOwnForRootUnlessItSaysMore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lines  string
		socket string
		uids   []int64
	}{
		"nothing said": {"attach: {}", "/run/nri-supervisor/attach/p/nri.sock", []int64{0}},
		"uids":         {"attach: {allowUIDs: [1000, 0]}", "/run/nri-supervisor/attach/p/nri.sock", []int64{1000, 0}},
		"socket":       {"attach: {socket: /run/p/p.sock}", "/run/p/p.sock", []int64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valid(t, parse(t, supervisorYAML, "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p}\nspec: {team: open, index: \"20\", selector: {}, "+tt.lines+"}\n"), "p")
			if !p.Attaches() || p.Spec.Exec != nil {
				t.Fatalf("attach %v, exec %v", p.Spec.Attach, p.Spec.Exec)
			}
			if a := p.Spec.Attach; a.Socket != tt.socket || !slices.Equal(a.AllowUIDs, tt.uids) {
				t.Errorf("attach %+v", *a)
			}
		})
	}
}

func TestAnEmptyAttachBesideExecIsNone(t *testing.T) {
	t.Parallel()
	if p := one(t, "attach: {}"); p.Attaches() {
		t.Errorf("attach %+v", *p.Spec.Attach)
	}
}
