package filetrust

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestWhoOwnsAndWhoMayWriteDecide(t *testing.T) {
	t.Parallel()
	us := uint32(os.Geteuid())
	stranger := us + 4000
	for _, tt := range []struct {
		name     string
		mode     fs.FileMode
		uid      uint32
		readOnly bool
		want     string // in the message
	}{
		{"root's file", 0o755, 0, false, ""},
		{"our file", 0o600, us, false, ""},
		{"a stranger's file", 0o755, stranger, false, "the file /x belongs to user "},
		{"a stranger's folder", fs.ModeDir | 0o755, stranger, false, "the folder /x belongs to user "},
		{"a stranger's sticky folder", fs.ModeDir | fs.ModeSticky | 0o777, stranger, false, "the folder /x belongs to user "},
		{"a stranger's link", fs.ModeSymlink | 0o777, stranger, false, "the link /x belongs to user "},
		{"a stranger's file on a read-only mount", 0o755, stranger, true, "the file /x belongs to user "},
		{"our link", fs.ModeSymlink | 0o777, us, false, ""},
		{"the group may write", 0o664, 0, false, "the file /x can be written by others (owner 0, group 0, mode 0664)"},
		{"everybody may write", 0o602, us, false, "mode 0602)"},
		{"everybody may make files", fs.ModeDir | 0o777, 0, false, "the folder /x can be written by others (owner 0, group 0, mode 0777)"},
		{"the folder of temporary files", fs.ModeDir | fs.ModeSticky | 0o777, 0, false, ""},
		{"a sticky file", fs.ModeSticky | 0o666, 0, false, "the file /x can be written"},
		{"a folder of a ConfigMap", fs.ModeDir | 0o777, 0, true, ""},
	} {
		w := judge(tt.mode, tt.uid, tt.readOnly)
		if (w == nil) != (tt.want == "") {
			t.Errorf("%s: %v", tt.name, w)
		}
		if w == nil {
			continue
		}
		w.Path = "/x"
		if !strings.Contains(w.Error(), tt.want) || !strings.HasSuffix(w.Remedy(), " /x") {
			t.Errorf("%s: %s; %s", tt.name, w, w.Remedy())
		}
	}
}
