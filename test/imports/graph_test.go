package imports_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/nri-supervisor/nri-supervisor"
	root   = "../.."
)

// source is one Go file of the module.
type source struct {
	name   string // slash-separated, relative to the module's root
	dir    string // its folder
	test   bool
	syntax *ast.File
}

// imports returns the paths that the file imports.
func (s source) imports() []string {
	var out []string
	for _, spec := range s.syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// sources parses all Go files of the module; modules within it and test data are not part of it.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if rel != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || isModule(name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		out = append(out, source{name: rel, dir: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), syntax: syntax})
		return nil
	})
	if err != nil {
		t.Fatalf("read the source of the module: %v", err)
	}
	if len(out) == 0 {
		t.Fatalf("read the source of the module: no Go file under %q", root)
	}
	return out
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// graph maps each folder to what its files, without tests, import.
type graph map[string][]string

func graphOf(files []source) graph {
	g := graph{}
	for _, f := range files {
		if f.test {
			continue
		}
		for _, p := range f.imports() {
			if !slices.Contains(g[f.dir], p) {
				g[f.dir] = append(g[f.dir], p)
			}
		}
		if g[f.dir] == nil {
			g[f.dir] = []string{} // a package that imports nothing is still there
		}
	}
	return g
}

// under returns the folders of the graph at or below dir, sorted.
func (g graph) under(dir string) []string {
	var out []string
	for d := range g {
		if within(d, dir) {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return out
}

// chain returns how the folder comes to import something that bad accepts, through our own packages, or nil.
func (g graph) chain(dir string, bad func(importPath string) bool) []string {
	seen := map[string]bool{}
	var walk func(dir string) []string
	walk = func(dir string) []string {
		if seen[dir] {
			return nil
		}
		seen[dir] = true
		for _, p := range g[dir] {
			if bad(p) {
				return []string{dir, p}
			}
			if own, ok := strings.CutPrefix(p, module+"/"); ok {
				if rest := walk(own); rest != nil {
					return append([]string{dir}, rest...)
				}
			}
		}
		return nil
	}
	return walk(dir)
}

// within reports whether p is the folder or import path at or below base.
func within(p, base string) bool { return p == base || strings.HasPrefix(p, base+"/") }
