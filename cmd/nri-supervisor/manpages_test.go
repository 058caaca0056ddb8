package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

//go:generate go test -run TestTheManPagesAreGeneratedFromTheCommands -update .

// manFolder holds the man pages that are released.
const manFolder = "../../deploy/man"

// manPages are the pages of the command and of all below it, by file name.
func manPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	date := time.Unix(0, 0).UTC() // of what never changes by itself
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		var b bytes.Buffer
		if err := doc.GenMan(cmd, &doc.GenManHeader{Title: strings.ToUpper(name), Section: "8", Source: "nri-supervisor", Manual: "System Administration", Date: &date}, &b); err != nil {
			t.Fatal(err)
		}
		pages[name+".8"] = b.String()
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				add(sub)
			}
		}
	}
	root := newRoot(io.Discard, io.Discard)
	root.DisableAutoGenTag = true
	add(root)
	return pages
}

func TestTheManPagesAreGeneratedFromTheCommands(t *testing.T) {
	t.Parallel()
	pages := manPages(t)
	files, err := filepath.Glob(filepath.Join(manFolder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := pages[filepath.Base(file)]; ok {
			continue
		}
		if !*update {
			t.Errorf("%s is of no command any more: make generate", file)
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, page := range pages {
		path := filepath.Join(manFolder, name)
		if *update {
			if err := os.MkdirAll(manFolder, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v: make generate writes it", err)
			continue
		}
		if diff := cmp.Diff(string(want), page); diff != "" {
			t.Errorf("%s is not what the command says; make generate writes it anew (-page +command):\n%s", path, diff)
		}
	}
}

func TestEachManPageSaysWhatItsCommandIsFor(t *testing.T) {
	t.Parallel()
	heading := regexp.MustCompile(`(?m)^\.SH [A-Z]+$`)
	for name, page := range manPages(t) {
		for _, want := range []string{".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
		if len(heading.FindAllString(page, -1)) < 3 || !strings.HasPrefix(page, `.nh`) {
			t.Errorf("%s is no man page: %.80q", name, page)
		}
	}
}
