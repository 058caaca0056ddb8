package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fenced is a block of a page, inline is code in its text, which may go on in the next line.
var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inline = regexp.MustCompile("`(?:sudo )?nri-supervisor\\s([^`]+)`")
)

// understood returns why the command line does not take a command that a page shows. A command without flags and arguments may be only its name.
func understood(words []string) error {
	root := newRoot(io.Discard, io.Discard)
	cmd, args, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	args = cmd.Flags().Args()
	if !cmd.HasParent() && len(args) > 0 {
		return fmt.Errorf("unknown command %q", args[0])
	}
	if len(args) == 0 {
		return nil
	}
	return cmd.ValidateArgs(args)
}

func TestEachCommandInTheTextOfTheManualsIsUnderstood(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			words := strings.Fields(m[1])
			if words[0] == helperCommand { // what the program calls itself as
				continue
			}
			seen++
			if err := understood(words); err != nil {
				t.Errorf("%s: `nri-supervisor %s`: %v", page, strings.Join(words, " "), err)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d commands were found", seen)
	}
}

func TestACommandThatIsNoneIsNotUnderstood(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"status": true, "status --watch": true, "plugin show": true, "plugin show NAME": true, "bypass --for 10m": true, "explain NAMESPACE/POD/CONTAINER": true, "log-level debug": true,
		"stats": false, "status --wach": false, "status NAME": false, "plugin shwo NAME": false, "plugin restart a b": false, "bypass 10m": false, "log-level loud": false, "missed --plugin": false,
	} {
		if err := understood(strings.Fields(text)); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
