package policy

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"
)

// ownedFile is what os.Stat says of a file of somebody's.
type ownedFile struct {
	uid  uint32
	mode fs.FileMode
}

func (f ownedFile) Name() string       { return "x" }
func (f ownedFile) Size() int64        { return 0 }
func (f ownedFile) Mode() fs.FileMode  { return f.mode }
func (f ownedFile) ModTime() time.Time { return time.Time{} }
func (f ownedFile) IsDir() bool        { return false }
func (f ownedFile) Sys() any           { return &syscall.Stat_t{Uid: f.uid} }

func TestAFileOfSomebodyElseIsNotTrusted(t *testing.T) {
	t.Parallel()
	us := uint32(os.Geteuid())
	for _, tt := range []struct {
		name string
		file ownedFile
		want string
	}{
		{"root's", ownedFile{0, 0o755}, ""},
		{"ours", ownedFile{us, 0o600}, ""},
		{"a stranger's", ownedFile{us + 4000, 0o755}, "the file belongs to uid "},
		{"the group may write", ownedFile{0, 0o664}, "the file can be written by others (mode 0664)"},
		{"everybody may write", ownedFile{us, 0o602}, "the file can be written by others (mode 0602)"},
	} {
		got, remedy := untrustedMode("the file", "/x", tt.file)
		if len(got) < len(tt.want) || got[:len(tt.want)] != tt.want || (got == "") != (tt.want == "") || (remedy == "") != (got == "") {
			t.Errorf("%s: %q; %q", tt.name, got, remedy)
		}
	}
}
