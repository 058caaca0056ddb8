package isolation

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAppearsBetweenALookAndTheFreezingIsLeftOut(t *testing.T) {
	t.Parallel()
	run, err := filepath.EvalSymlinks("/run")
	if err != nil {
		t.Fatal(err)
	}
	o := &order{Hide: []string{"/run/nris-not-there", "/run/nris-neither/below/this", "/srv/nris-elsewhere"}}
	want := []level{{path: run, hidden: []string{"nris-not-there"}, absent: []string{"nris-neither"}}}
	if diff := cmp.Diff(want, o.levels(nil, nil, nil), cmp.AllowUnexported(level{})); diff != "" {
		t.Error(diff)
	}
}

func TestTheNearestPathDecidesWhetherAFolderIsFrozen(t *testing.T) {
	t.Parallel()
	all := []mask{{path: "/run", dir: true}}
	reads, writes := shown{path: "/run"}, shown{path: "/run", writable: true}
	for name, tt := range map[string]struct {
		list  []shown
		masks []mask
		want  bool
	}{
		"nothing is said of it":        {nil, nil, true},
		"hidden as a whole":            {nil, all, false},
		"hidden, and shown to be read": {[]shown{reads}, all, true},
		"shown to be read":             {[]shown{reads}, nil, true},
		"shown to be written":          {[]shown{writes}, nil, false},
		"written, and a part read":     {[]shown{writes, {path: "/run/systemd"}}, nil, true},
		"something below it is shown":  {[]shown{{path: "/run/systemd/resolve", writable: true}}, nil, true},
	} {
		if got := freezes("/run/systemd", tt.list, tt.masks); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
