package isolation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOtherPlacesOfWhatIsProtectedAreTakenButForThoseThatHoldWhatPluginsMayWrite(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	at := func(root, point string) mounted { return mounted{device: "8:1", root: root, point: point} }
	mounts := []mounted{at("/", path), at("/deploy/root", "/"), at("/deploy/var", "/var"), at("/part", "/srv/part"), at("/part", path+"/part"), {device: "8:2", root: "/", point: "/srv/other"}}
	for name, tt := range map[string]struct {
		list []shown
		want []string
	}{
		"no list":              {nil, []string{"/srv/part"}},
		"one to be read":       {[]shown{{path: path + "/part"}}, []string{"/srv/part"}},
		"one that is writable": {[]shown{{path: path + "/part", writable: true}}, []string{"/srv/part", path + "/part"}},
	} {
		if diff := cmp.Diff(tt.want, aliases([]string{path}, tt.list, mounts)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
