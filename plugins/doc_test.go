package plugins_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheManualShowsTheExampleAsItIsBuilt(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../docs/writing-a-plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(manual), "```go\n")
	if !ok {
		t.Fatal("the manual has no Go code")
	}
	shown, _, _ := strings.Cut(rest, "```\n")
	if diff := cmp.Diff(string(code), shown); diff != "" {
		t.Errorf("copy plugins/example/main.go into docs/writing-a-plugin.md:\n%s", diff)
	}
}
