package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nri-supervisor/nri-supervisor/filetrust"
)

// distrusted checks who can change what the path leads to. It checks nothing with fileTrust: off or without CheckFiles.
func (b *builder) distrusted(path string) (Problem, bool) {
	if !b.options.CheckFiles || b.spec.FileTrust != TrustStrict {
		return Problem{}, false
	}
	message, remedy := untrusted(path)
	return Problem{File: path, Message: message, Remedy: remedy}, message != ""
}

// untrusted says who else can change what the path leads to; "" when nobody but root and we can.
func untrusted(path string) (message, remedy string) {
	absolute, err := filepath.Abs(path)
	if err == nil {
		_, err = filetrust.Check(absolute)
	}
	if weak, ok := errors.AsType[*filetrust.Weakness](err); ok {
		return weak.Error(), weak.Remedy() + ", or set fileTrust: off"
	}
	if err != nil {
		return "look at who can change it: " + cause(err), "make it accessible"
	}
	return "", ""
}

// checkBinary looks at the file that exec.path names.
func (b *builder) checkBinary(d *document, field, path string, profile Profile) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		d.errorf(field, "install the binary there, or correct the path", "look at %q: %s", path, cause(err))
	case info.IsDir():
		d.errorf(field, "write the path of the binary", "%q is a folder", path)
	case !info.Mode().IsRegular():
		d.errorf(field, "write the path of the binary", "%q is %s, not a regular file", path, fileKind(info.Mode()))
	case info.Mode()&0o111 == 0:
		d.errorf(field, "chmod +x "+path, "%q is not executable (mode %04o)", path, info.Mode().Perm())
	case profile != ProfileNone && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		d.errorf(field, "chmod ug-s "+path, "%q is setuid or setgid, and so would undo what confines the plugin", path)
	case b.spec.FileTrust == TrustStrict:
		if message, remedy := untrusted(path); message != "" {
			d.errorf(field, remedy, "%q: %s", path, message)
		}
	}
}

// checkEnviron looks at what the environment that is written in the manifest makes the program load.
func (b *builder) checkEnviron(d *document, e *ExecSpec) {
	if b.spec.FileTrust != TrustStrict {
		return
	}
	for i, v := range e.Env {
		field := indexPath("spec.exec.env", i)
		if d.failedUnder(field) {
			continue
		}
		err := filetrust.CheckEnviron([]string{v.Name + "=" + v.Value})
		if weak, ok := errors.AsType[*filetrust.Weakness](err); ok {
			d.errorf(field, weak.Remedy()+", or set fileTrust: off", "%v", err)
		} else if err != nil {
			d.errorf(field, "name a file or folder that only root can change, or set fileTrust: off", "%v", err)
		}
	}
}

// warnAttachFolder warns of a socket of a plugin that attaches which others could replace: what is there of its folder by now decides. Such a socket is not made.
func warnAttachFolder(d *document, socket string) {
	for folder := filepath.Dir(socket); ; folder = filepath.Dir(folder) {
		_, err := filetrust.Check(folder)
		if weak, ok := errors.AsType[*filetrust.Weakness](err); ok {
			at := "spec.attach.socket"
			if !d.written(at) {
				at = "spec.attach"
			}
			d.warnf(at, weak.Remedy()+", or write a path in a folder of root's", "others could put a socket of their own in the place of %q: %s", socket, weak)
			return
		}
		if !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return
		}
	}
}

// checkReadable looks at a file that a manifest refers to.
func (b *builder) checkReadable(d *document, field, path string) {
	f, err := readReference(path)
	if err != nil {
		d.errorf(field, "create the file, or correct the path", "read %q: %s", path, cause(err))
		return
	}
	if len(f.Data) > maxFileSize {
		d.errorf(field, "shorten it", "%q has more than %d bytes (4 MiB)", path, maxFileSize)
	}
}
