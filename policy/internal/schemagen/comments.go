package schemagen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// Comments holds doc comments by "Type" and "Type.Field".
type Comments map[string]string

// ReadComments reads the doc comments of the exported types, and their fields, in the Go files of a folder.
func ReadComments(dir string) (Comments, error) {
	out := Comments{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", dir, err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse %q: %w", e.Name(), err)
		}
		out.add(file)
	}
	return out, nil
}

func (c Comments) add(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		decl, ok := n.(*ast.GenDecl)
		if !ok || decl.Tok != token.TYPE {
			return true
		}
		for _, s := range decl.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			doc := spec.Doc
			if doc == nil {
				doc = decl.Doc
			}
			c[spec.Name.Name] = text(doc)
			structure, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range structure.Fields.List {
				for _, name := range f.Names {
					c[spec.Name.Name+"."+name.Name] = text(f.Doc)
				}
			}
		}
		return true
	})
}

// text is a comment in one line.
func text(doc *ast.CommentGroup) string {
	return strings.Join(strings.Fields(doc.Text()), " ")
}
