package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nri-supervisor/nri-supervisor/filelook"
	"github.com/nri-supervisor/nri-supervisor/filetrust"
)

// distrusted checks who can change what the path leads to. It checks nothing with fileTrust: off or without CheckFiles.
func (b *builder) distrusted(path string) (Problem, bool) {
	if !b.options.CheckFiles || b.spec.FileTrust != TrustStrict {
		return Problem{}, false
	}
	message, remedy := b.untrusted(path)
	return Problem{File: path, Message: message, Remedy: remedy}, message != ""
}

// untrusted is the function of that name, with a limit.
func (b *builder) untrusted(path string) (message, remedy string) {
	got, err := filelook.Ask(b.options.Looks, path, func() [2]string {
		message, remedy := untrusted(path)
		return [2]string{message, remedy}
	})
	if err != nil {
		return err.Error(), "make it accessible"
	}
	return got[0], got[1]
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
	f, err := filelook.Ask(b.options.Looks, path, func() flaw { return b.flawOf(path, profile) })
	if err != nil {
		d.errorf(field, "see that it answers, or install the binary elsewhere", "executable %q: %s", path, err)
	} else if f.message != "" {
		d.errorf(field, f.remedy, "%s", f.message)
	}
}

// flaw is what is wrong with a file. The zero value: nothing.
type flaw struct{ message, remedy string }

// flawOf is what is wrong with the file that exec.path names.
func (b *builder) flawOf(path string, profile Profile) flaw {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return flaw{fmt.Sprintf("look at %q: %s", path, cause(err)), "install the binary there, or correct the path"}
	case info.IsDir():
		return flaw{fmt.Sprintf("%q is a folder", path), "write the path of the binary"}
	case !info.Mode().IsRegular():
		return flaw{fmt.Sprintf("%q is %s, not a regular file", path, fileKind(info.Mode())), "write the path of the binary"}
	case info.Mode()&0o111 == 0:
		return flaw{fmt.Sprintf("%q is not executable (mode %04o)", path, info.Mode().Perm()), "chmod +x " + path}
	case profile != ProfileNone && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return flaw{fmt.Sprintf("%q is setuid or setgid, and so would undo what confines the plugin", path), "chmod ug-s " + path}
	case b.spec.FileTrust == TrustStrict:
		if message, remedy := untrusted(path); message != "" {
			return flaw{fmt.Sprintf("%q: %s", path, message), remedy}
		}
	}
	return flaw{}
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
		entry := []string{v.Name + "=" + v.Value}
		err := b.answer(filetrust.Loaded(entry))
		if err == nil {
			err = filetrust.CheckEnviron(entry)
		}
		if weak, ok := errors.AsType[*filetrust.Weakness](err); ok {
			d.errorf(field, weak.Remedy()+", or set fileTrust: off", "%v", err)
		} else if err != nil {
			d.errorf(field, "name a file or folder that only root can change, or set fileTrust: off", "%v", err)
		}
	}
}

// answer is the error of the first path that does not answer.
func (b *builder) answer(paths []string) error {
	for _, path := range paths {
		if err := b.options.Looks.Answers(path); err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
	}
	return nil
}

// warnAttachFolder warns of a socket of a plugin that attaches which others could replace: what is there of its folder by now decides. Such a socket is not made.
func (b *builder) warnAttachFolder(d *document, socket string) {
	for folder := filepath.Dir(socket); ; folder = filepath.Dir(folder) {
		err := b.options.Looks.Try(folder, func() error {
			_, err := filetrust.Check(folder)
			return err
		})
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
	f, err := b.readReference(path)
	if err != nil {
		d.errorf(field, "create the file, or correct the path", "read %q: %s", path, cause(err))
		return
	}
	if len(f.Data) > maxFileSize {
		d.errorf(field, "shorten it", "%q has more than %d bytes (4 MiB)", path, maxFileSize)
	}
}
