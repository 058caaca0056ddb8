package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/filelook"
)

// CheckExecPath says what is wrong if the plugin's team may not execute the file at path, a path without links: what a link in one of the team's
// folders leads to has to be in one of them as well. It looks at where the folders of execPaths lead to by now. Safe for concurrent use.
func (p *Plugin) CheckExecPath(path string) error {
	if p.execPaths == nil || slices.ContainsFunc(p.execPaths, func(g pathGlob) bool { return g.match(path) || g.withoutLinks().match(path) }) {
		return nil
	}
	return fmt.Errorf("it leads to %q, which is outside the paths of team %s", path, p.Team)
}

// withoutLinks is the glob with its leading folders that are no patterns in the place where their links lead to.
func (g pathGlob) withoutLinks() pathGlob {
	n := slices.IndexFunc(g, func(part string) bool { return strings.ContainsAny(part, "*?") })
	if n < 0 {
		n = len(g) - 1 // the program itself may not be elsewhere
	}
	folder, err := filepath.EvalSymlinks("/" + strings.Join(g[:n], "/"))
	if err != nil || folder == "/" {
		return g
	}
	return append(strings.Split(folder[1:], "/"), g[n:]...)
}

// checkExecTarget refuses a binary that a link takes out of the team's paths.
func (d *document) checkExecTarget(p *Plugin, looks *filelook.Looks) {
	const field = "spec.exec.path"
	if p.Spec.Exec == nil || p.execPaths == nil || d.failedUnder(field) {
		return
	}
	target, ok := looks.Resolved(p.Spec.Exec.Path)
	if !ok {
		return // that it is missing, or does not answer, is said elsewhere
	}
	if err := looks.Try(p.Spec.Exec.Path, func() error { return p.CheckExecPath(target) }); err != nil {
		d.errorf(field, "install the binary itself there, or change "+childPath("spec.teams", p.Team)+".execPaths", "%q: %v", p.Spec.Exec.Path, err)
	}
}
