package policy

import (
	"math"
	"path/filepath"
	"reflect"
	"strings"
)

// attachSocketName is the socket of a plugin that attaches, in a folder of its own: a runtime's NRI socket is called so, and a pod mounts the folder in its place.
const attachSocketName = "nri.sock"

// attached reports whether the manifest chooses attach. An empty attach beside exec is no choice: it is what the field is without any setting.
func attached(s *PluginSpec) bool {
	return s.Attach != nil && (s.Exec == nil || !reflect.ValueOf(*s.Attach).IsZero())
}

// completeAttach fills in what attach leaves out, and checks it.
func (b *builder) completeAttach(d *document, own *node, p *Plugin) {
	s := &p.Spec
	if !attached(s) {
		s.Attach = nil
		return
	}
	if s.Exec != nil || d.failedUnder("spec.attach") {
		return // told already
	}
	a := *s.Attach
	if a.Socket == "" {
		a.Socket = filepath.Join(b.spec.RunDir, "attach", p.Name, attachSocketName)
		if b.usable && p.Name != "" && !d.failedUnder("metadata.name") && len(a.Socket) > maxSocketPath {
			d.errorf("spec.attach", "shorten the name or runDir, or write attach: {socket: PATH}",
				"the path %q has %d bytes, more than the %d of a unix socket", a.Socket, len(a.Socket), maxSocketPath)
		}
	}
	if a.AllowUIDs == nil {
		a.AllowUIDs = []int64{0}
	}
	s.Attach = &a
	if len(a.AllowUIDs) == 0 {
		d.errorf("spec.attach.allowUIDs", "write [0] for root, or delete the line", "the list is empty, so nobody could connect")
	}
	for i, uid := range a.AllowUIDs {
		if uid < 0 || uid >= math.MaxUint32 { // the last one is "no user"
			d.errorf(indexPath("spec.attach.allowUIDs", i), "write the number of a user of this host, such as 0", "%d is not a user's number", uid)
		}
	}
	for _, other := range []struct{ whose, socket string }{{"the runtime's", b.spec.Runtime.Socket}, {"the supervisor's admin", b.spec.Admin.Socket}} {
		if a.Socket == other.socket {
			d.errorf("spec.attach.socket", "write another path, or delete the line", "%q is %s socket", a.Socket, other.whose)
		}
	}
	for _, field := range []string{"health", "resources", "restart", "sandbox"} {
		if own.get(field) != nil {
			d.errorf("spec."+field, "delete it", "%s has no meaning for a plugin that attaches: its process is somebody else's", field)
		}
	}
}

// rejectSharedSockets makes every plugin invalid whose socket another plugin has too.
func (b *builder) rejectSharedSockets() {
	first := map[string]*candidate{}
	for _, c := range b.plugins {
		a := c.plugin.Spec.Attach
		if a == nil || a.Socket == "" {
			continue
		}
		socket := filepath.Clean(strings.TrimSpace(a.Socket))
		other := first[socket]
		if other == nil {
			first[socket] = c
			continue
		}
		if other.plugin.Name == c.plugin.Name {
			continue // told already
		}
		for _, pair := range [][2]*candidate{{c, other}, {other, c}} {
			pair[0].doc.errorf("spec.attach.socket", "write another path, or delete the line", "the socket %q is also that of plugin %s", socket, pair[1].plugin.Name)
		}
	}
}
