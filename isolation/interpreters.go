package isolation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Programs are what a program at an absolute path is executed by: itself, and if it is a script, its interpreter and, if that is env, the program that env finds, and theirs. env is as in
// Spec.Env. What cannot be read has none. It executes nothing; safe for concurrent use.
func Programs(path string, env []string) []string {
	out := []string{path}
	addInterpreters(&out, path, env, maxInterpreters)
	return out
}

func addInterpreters(out *[]string, path string, env []string, more int) {
	f, err := openProgram(path)
	if err != nil || more == 0 {
		return
	}
	defer func() { _ = f.Close() }() // read only
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || !isScript(f) {
		return
	}
	programs, _, _ := interpreters(f, env) // of what cannot be read there are none
	for _, p := range programs {
		if !slices.Contains(*out, p) {
			*out = append(*out, p)
			addInterpreters(out, p, env, more-1)
		}
	}
}

// interpreters are the programs that the first line of a script names: its interpreter, and, if that is env, the one that env looks up. There are none if that is no absolute path.
func interpreters(script *os.File, env []string) (programs []string, line string, err error) {
	head := make([]byte, 256) // the most that the kernel looks at, execve(2)
	n, err := script.ReadAt(head, 0)
	if n < len("#!") {
		return nil, "", err
	}
	line, _, _ = strings.Cut(string(head[len("#!"):n]), "\n")
	words := strings.Fields(line)
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return nil, line, nil
	}
	programs = words[:1:1]
	if filepath.Base(words[0]) == "env" {
		if found := lookUp(words[1:], env); found != "" {
			programs = append(programs, found)
		}
	}
	return programs, line, nil
}

// lookUp finds the program that env(1) would execute, behind its options and settings. Empty: there is none.
func lookUp(words, env []string) string {
	path := defaultPath
	for _, kv := range env { // the last of a name wins
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, w := range words {
		switch {
		case strings.HasPrefix(w, "-"), strings.ContainsRune(w, '='):
			continue
		case filepath.IsAbs(w):
			return w
		}
		for _, dir := range filepath.SplitList(path) {
			if info, err := os.Stat(filepath.Join(dir, w)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return filepath.Join(dir, w)
			}
		}
		return ""
	}
	return ""
}
