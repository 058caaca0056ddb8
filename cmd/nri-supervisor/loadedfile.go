package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/filelook"
	"github.com/nri-supervisor/nri-supervisor/filetrust"
	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// loadedFile is what a plugin executes, or makes its program load.
type loadedFile struct {
	path string // as the manifest or the script has it
	what string // "executable", or what it is else
	// at are the files and folders, without links, of which nobody may write to one, lest it lead to something else.
	at []string
	// places are where else the file itself is mounted; they are among at, too.
	places []string
	// missing tells that there is none, and the last of at is the folder in which it would be made.
	missing bool
	// names is how many names the file has: it can be changed by each.
	names uint64
	// err is why nothing is known of what is there: its file system does not answer, or answers with an error.
	err error
}

// loadedFiles are those of a plugin with its environment. A pinned executable is none: what is executed is what was hashed.
func loadedFiles(looks *filelook.Looks, p *policy.Plugin, env []string) []loadedFile {
	e := p.Spec.Exec
	if e == nil || p.FileTrust == policy.TrustOff {
		return nil
	}
	var out []loadedFile
	for n, path := range programs(looks, e.Path, env) {
		switch {
		case n > 0:
			out = append(out, newLoadedFile(looks, path, "interpreter"))
		case e.SHA256 == "":
			out = append(out, newLoadedFile(looks, path, "executable"))
		}
	}
	for _, path := range filetrust.Loaded(env) {
		out = append(out, newLoadedFile(looks, path, "file of its environment"))
	}
	return out
}

// programs are what executes a program; of one that does not answer, itself.
func programs(looks *filelook.Looks, path string, env []string) []string {
	out, err := filelook.Ask(looks, path, func() []string { return isolation.Programs(path, env) })
	if err != nil {
		return []string{path}
	}
	return out
}

func newLoadedFile(looks *filelook.Looks, path, what string) loadedFile {
	out, err := filelook.Ask(looks, path, func() loadedFile {
		out := loadedFile{path: path, what: what}
		links, target, err := filetrust.Trail(path)
		for _, link := range links {
			out.at = append(out.at, filepath.Dir(link))
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			target, out.missing = existing(nil, target), true
		case !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
			out.err = err
		}
		out.at = append(out.at, target)
		places := isolation.Places(out.at, isolation.Standard(nil).Protect)
		out.places = places[len(places)-1]
		out.at = slices.Concat(slices.Concat(places...), out.at)
		out.names = namesOf(target)
		return out
	})
	if err != nil {
		return loadedFile{path: path, what: what, at: []string{path}, err: err}
	}
	return out
}

// namesOf is how many names a file has; 1 on what nobody can write to.
func namesOf(path string) uint64 {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || unix.Statfs(path, &fs) == nil && fs.Flags&unix.ST_RDONLY != 0 {
		return 1
	}
	return uint64(st.Nlink) //nolint:unconvert // not on every architecture
}

// existing is the path without links of the nearest that exists of a path and the folders above it.
func existing(looks *filelook.Looks, path string) string {
	for ; path != "/"; path = filepath.Dir(path) {
		if target, ok := looks.Resolved(path); ok {
			return target
		}
	}
	return path
}

// target is the file itself.
func (f *loadedFile) target() string { return f.at[len(f.at)-1] }

// identity is which file is there now; false: none.
func (f *loadedFile) identity(looks *filelook.Looks) (fileIdentity, bool) {
	if f.missing || f.err != nil {
		return fileIdentity{}, false
	}
	path := f.target()
	st, err := filelook.Ask(looks, path, func() (st unix.Stat_t) {
		if unix.Stat(path, &st) != nil {
			st = unix.Stat_t{}
		}
		return st
	})
	if err != nil || st == (unix.Stat_t{}) {
		return fileIdentity{}, false
	}
	return fileIdentity{uint64(st.Dev), st.Ino, st.Ctim}, true //nolint:unconvert // not on every architecture
}

func (f *loadedFile) changeableBy(o *runner) bool { return slices.ContainsFunc(f.at, o.writes) }

// mightBeChangedBy is mightWrite for each place of the file itself.
func (f *loadedFile) mightBeChangedBy(o *runner) bool {
	return o.mightWrite(f.target()) || slices.ContainsFunc(f.places, o.mightWrite)
}

// readable refuses what nothing is known of.
func (f *loadedFile) readable() error {
	if f.err != nil {
		return fmt.Errorf("check %s %q: %w", f.what, f.path, f.err)
	}
	return nil
}

// onlyName refuses a file with names besides its path by which another plugin could change it: where a plugin can write to a file's folder, it can have made one, and write to it there.
func (f *loadedFile) onlyName(p *policy.Plugin, others []runner) error {
	if by := f.namedBy(p, others); by != "" {
		return fmt.Errorf("check %s %q: the file has %d names, hard links, and plugin %s could change it by another one: install a copy that has no other name%s", f.what, f.path, f.names, by, f.pin())
	}
	return nil
}

// namedBy is another plugin that could change the file by another name; "": none.
func (f *loadedFile) namedBy(p *policy.Plugin, others []runner) string {
	for i := range others {
		if o := &others[i]; f.names > 1 && !o.isOf(p) && f.mightBeChangedBy(o) {
			return o.plugin.Name
		}
	}
	return ""
}

// refusal says what to do.
func (f *loadedFile) refusal(by string, past bool) error {
	verb := "runs and can"
	if past {
		verb = "could"
	}
	return fmt.Errorf("check %s %q: plugin %s %s change it: move it below /opt%s, or see that it is as it should be and restart the service, which keeps it from all plugins", f.what, f.path, by, verb, f.pin())
}

// pin is a remedy for an executable.
func (f *loadedFile) pin() string {
	if f.what != "executable" {
		return ""
	}
	return ", write its exec.sha256"
}
