package filetrust

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Trail returns the symbolic links that an absolute path leads through, in order, and the path without links. Each link is absolute and has no links before its last
// part. It judges nothing. The error is that of looking at the path; what was found until then is returned with it.
func Trail(path string) (links []string, target string, err error) { return Walk(path, nil) }

// Walk is Trail that tells before each look at a file, folder or link what is looked at next, and ends with the error that it gets for that.
func Walk(path string, before func(place string) error) (links []string, target string, err error) {
	if !filepath.IsAbs(path) {
		return nil, "", fmt.Errorf("look at %q: not an absolute path", path)
	}
	w := walk{real: "/", rest: parts(path), before: before}
	for len(w.rest) > 0 {
		if err := w.step(); err != nil {
			return w.followed, w.real, err
		}
	}
	return w.followed, w.real, nil
}

// Loaded returns the absolute paths that an environment makes a program load code from, as CheckEnviron looks at them, in no order.
func Loaded(env []string) []string {
	var out []string
	for _, entries := range loaded(env) {
		for _, entry := range entries {
			if filepath.IsAbs(entry) {
				out = append(out, entry)
			}
		}
	}
	return out
}

// loaded are the entries of the variables that name code.
func loaded(env []string) map[string][]string {
	values, out := map[string]string{}, map[string][]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		values[name] = value
	}
	for name, separators := range codeVariables() {
		out[name] = strings.FieldsFunc(values[name], func(r rune) bool { return strings.ContainsRune(separators, r) })
	}
	return out
}
