package policy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// writableByOthers is the write permission of the group and of everybody.
const writableByOthers fs.FileMode = 0o022

// distrusted checks who can write the file and the folder it lies in. It checks nothing with fileTrust: off
// or without CheckFiles.
func (b *builder) distrusted(path string, info fs.FileInfo) (Problem, bool) {
	if !b.options.CheckFiles || b.spec.FileTrust != TrustStrict {
		return Problem{}, false
	}
	message, remedy := untrusted(path, info)
	return Problem{File: path, Message: message, Remedy: remedy}, message != ""
}

// untrusted says who else can replace the file's content; "" when nobody but root and we can.
func untrusted(path string, info fs.FileInfo) (message, remedy string) {
	if message, remedy = untrustedMode("the file", path, info); message != "" {
		return message, remedy
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	if err != nil {
		return "look at the folder " + folder + ": " + cause(err), "make it accessible"
	}
	// In a sticky folder, such as /tmp, only the owner of a file can replace it.
	if info.Mode()&fs.ModeSticky != 0 {
		return "", ""
	}
	return untrustedMode("the folder "+folder, folder, info)
}

func untrustedMode(what, path string, info fs.FileInfo) (message, remedy string) {
	if info.Mode()&writableByOthers != 0 {
		return fmt.Sprintf("%s can be written by others (mode %04o)", what, info.Mode().Perm()),
			"chmod go-w " + path + ", or set fileTrust: off"
	}
	if owner, ok := ownerOf(info); ok && owner != 0 && owner != os.Geteuid() {
		return fmt.Sprintf("%s belongs to uid %d, which is neither root nor the user running this", what, owner),
			"chown root " + path + ", or set fileTrust: off"
	}
	return "", ""
}

func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// checkBinary looks at the file that exec.path names.
func (b *builder) checkBinary(d *document, field, path string) {
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
	case b.spec.FileTrust != TrustStrict:
	case info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		d.errorf(field, "chmod ug-s "+path, "%q is setuid or setgid, and so would undo what confines the plugin", path)
	default:
		if message, remedy := untrusted(path, info); message != "" {
			d.errorf(field, remedy, "%q: %s", path, message)
		}
	}
}

// checkReadable looks at a file that a manifest refers to.
func (b *builder) checkReadable(d *document, field, path string) {
	f, _, err := readFile(path)
	if err != nil {
		d.errorf(field, "create the file, or correct the path", "read %q: %s", path, cause(err))
		return
	}
	if len(f.Data) > maxFileSize {
		d.errorf(field, "shorten it", "%q has more than %d bytes (4 MiB)", path, maxFileSize)
	}
}
