package filetrust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// codeVariables are the variables whose entries, files or folders, a program's loader or a usual interpreter executes code from, with the characters
// between two entries: ld.so(8), and the manuals of Python, Perl, Ruby, Node.js, Bash and glibc's iconv.
func codeVariables() map[string]string {
	return map[string]string{
		"LD_PRELOAD": " :", "LD_AUDIT": ":", "LD_LIBRARY_PATH": ":;", "GCONV_PATH": ":", "PYTHONPATH": ":", "PYTHONHOME": ":", "PYTHONSTARTUP": "",
		"PERL5LIB": ":", "PERLLIB": ":", "RUBYLIB": ":", "NODE_PATH": ":", "BASH_ENV": "",
	}
}

// CheckEnviron holds what an environment makes a program load to the rule for programs. env is as execve(2) takes it, the last of a name wins. The error
// names the variable; it is a *Weakness if somebody else can change an entry, or make one that does not exist. A name without a slash is looked for in the
// system's folders and is not looked at; a relative path would depend on where the program runs, and is refused.
func CheckEnviron(env []string) error {
	for name, entries := range loaded(env) {
		for _, entry := range entries {
			if err := checkEntry(entry); err != nil {
				return fmt.Errorf("variable %s: %w", name, err)
			}
		}
	}
	return nil
}

// checkEntry looks at one file or folder, or at the folder in which it would be made.
func checkEntry(entry string) error {
	if !strings.Contains(entry, "/") {
		return nil
	}
	if !filepath.IsAbs(entry) || strings.Contains(entry, "$") {
		return fmt.Errorf("%q is not an absolute path: write one", entry)
	}
	_, err := Check(entry)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := filepath.Dir(entry); ; dir = filepath.Dir(dir) {
		resolved, err := Check(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != "/" {
			continue
		}
		if err != nil {
			return err
		}
		return notSticky(resolved)
	}
}

// notSticky refuses a folder in which others may make what is not there yet.
func notSticky(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSticky != 0 && info.Mode()&writableByOthers != 0 && !readOnly(dir, info.Mode()) {
		return fmt.Errorf("anybody can make what is missing in %q", dir)
	}
	return nil
}
