package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestTheManifestsInTheManualAreValid(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "writing-a-plugin.md"))
	if err != nil {
		t.Fatal(err)
	}
	config := policy.SourceFile{Path: "config.yaml", Data: []byte(goodConfig)}
	plugins := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(manual), -1) {
		if !strings.Contains(block[1], "kind: Plugin") {
			continue // a Supervisor document, or a part of one
		}
		c, err := policy.Parse([]policy.SourceFile{config, {Path: "plugins.yaml", Data: []byte(block[1])}}, policy.LoadOptions{ConfigFile: "config.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Problems {
			t.Errorf("%v in:\n%s", p, block[1])
		}
		plugins += len(c.Plugins)
	}
	if plugins < 4 { // the example and the three that come along
		t.Errorf("%d plugins in the manual, want at least 4", plugins)
	}
}
