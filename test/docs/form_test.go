package docs_test

import (
	"os"
	"path/filepath"
	"testing"
)

// pages are README.md and the manuals.
func pages(t *testing.T) []string {
	t.Helper()
	manuals, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(manuals) < 10 {
		t.Fatalf("there are the manuals %q, %v", manuals, err)
	}
	return append(manuals, filepath.Join("..", "..", "README.md"))
}

func TestEveryBlockOfTheManualsIsRun(t *testing.T) {
	t.Parallel()
	run := 0
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, wrong := parse(string(text))
		for _, err := range wrong {
			t.Errorf("%s: %v", file, err)
		}
		for _, s := range steps {
			if s.verb == verbConsole {
				if _, err := commands(s.text); err != nil {
					t.Errorf("%s:%d: %v", file, s.line, err)
				}
			}
			if s.verb == verbScript || s.verb == verbConsole {
				run++
			}
		}
	}
	if run < 60 {
		t.Errorf("only %d blocks are run", run)
	}
}

func TestAPageThatHidesACommandFromTheTestIsRefused(t *testing.T) {
	t.Parallel()
	for _, page := range []string{
		"```\nmake\n```", "```bash\nmake\n```", "text:\n\n    $ make\n", "text:\n\n    make\n", "text:\n\n\tmake\n", "- item\n\n      make\n", "~~~sh\nmake\n~~~", "> ```sh\n> make\n> ```", "- ```sh\n  make\n  ```", "1. ~~~\n   make\n   ~~~",
		"```text\n$ make\n```", "```text\nsudo make me\n```", "```text\nnri-supervisor status\n```", "```yaml\n$ make\n```", "<pre>\nmake\n</pre>", "see\n<PRE>make</PRE>", "<code>make</code>",
		"<!-- test: not run: needs a cluster -->", "<!-- test: interrupt -->", "<!-- test: end now -->", "<!-- test: skip -->", "<!-- test: setup -->", "<!-- test: background now -->",
	} {
		if steps, wrong := parse(page); len(wrong) == 0 {
			t.Errorf("%q is taken as %v", page, steps)
		}
	}
	steps, wrong := parse("# Page\n\n<!-- test: exit 3 -->\n```sh\nkubectl get pods\n```\n\n- item\n\n  ```console\n  $ a \\\n    b\n  c\n  ```\n<!-- test: setup\necho 1\necho 2\n-->\n")
	if len(wrong) > 0 || len(steps) != 4 || steps[0].arg != "3" || steps[1].text != "kubectl get pods\n" || steps[2].text != "$ a \\\n  b\nc\n" || steps[3].text != "echo 1\necho 2\n" {
		t.Errorf("the page is taken as %+v, %v", steps, wrong)
	}
	if c, err := commands(steps[2].text); err != nil || len(c) != 1 || c[0].text != "a \\\n  b" || len(c[0].shown) != 1 {
		t.Errorf("the console is taken as %+v, %v", c, err)
	}
}
