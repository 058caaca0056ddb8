package filetrust_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/filetrust"
)

func TestWhatAnEnvironmentMakesAProgramLoadIsHeldToTheRuleForPrograms(t *testing.T) {
	t.Parallel()
	root := folder(t)
	for dir, mode := range map[string]os.FileMode{"good": 0o755, "weak": 0o777, "sticky": 0o777 | os.ModeSticky} {
		if err := errors.Join(os.Mkdir(filepath.Join(root, dir), 0o755), os.WriteFile(filepath.Join(root, dir, "lib.so"), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		chmod(t, filepath.Join(root, dir), mode)
	}
	for name, tt := range map[string]struct {
		env  []string
		want string // in the error; empty: none
	}{
		"nothing":                    {[]string{"HOME=/tmp", "A=" + root + "/weak"}, ""},
		"good ones":                  {[]string{"LD_PRELOAD=ROOT/good/lib.so libc.so.6", "LD_LIBRARY_PATH=ROOT/good:ROOT/good/none"}, ""},
		"a weak library":             {[]string{"LD_PRELOAD=ROOT/good/lib.so ROOT/weak/lib.so"}, "variable LD_PRELOAD: the folder ROOT/weak can be written by others"},
		"a weak folder of libraries": {[]string{"LD_LIBRARY_PATH=ROOT/good:ROOT/weak"}, "variable LD_LIBRARY_PATH: the folder ROOT/weak can be"},
		"a weak module":              {[]string{"PYTHONPATH=ROOT/weak"}, "variable PYTHONPATH: the folder ROOT/weak can be"},
		"one that is missing":        {[]string{"LD_AUDIT=ROOT/weak/none/none.so"}, "variable LD_AUDIT: the folder ROOT/weak can be"},
		"a good one in a sticky":     {[]string{"LD_PRELOAD=ROOT/sticky/lib.so"}, ""},
		"missing in a sticky":        {[]string{"LD_PRELOAD=ROOT/sticky/none.so"}, `variable LD_PRELOAD: anybody can make what is missing in "ROOT/sticky"`},
		"a relative one":             {[]string{"LD_PRELOAD=../lib.so"}, `variable LD_PRELOAD: "../lib.so" is not an absolute path`},
		"beside the program":         {[]string{"LD_LIBRARY_PATH=$ORIGIN/../lib"}, "is not an absolute path"},
		"the last of a name":         {[]string{"LD_PRELOAD=ROOT/weak/lib.so", "LD_PRELOAD="}, ""},
	} {
		env := make([]string, len(tt.env))
		for i, kv := range tt.env {
			env[i] = strings.ReplaceAll(kv, "ROOT", root)
		}
		err := filetrust.CheckEnviron(env)
		if want := strings.ReplaceAll(tt.want, "ROOT", root); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
