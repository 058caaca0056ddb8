package policy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestAnAuditAmongTheFilesOfOthersIsWarnedOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/var/log/audit.jsonl": true, "/var/log/nri-supervisor/audit.jsonl": false} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		text := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {pluginDirs: [/srv/none], audit: {path: " + path + "}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := policy.Load(policy.LoadOptions{ConfigFile: file})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(cfg.Problems, func(p policy.Problem) bool { return strings.Contains(p.Message, "until it is rotated") }); got != want {
			t.Errorf("%s: %v, want %v: %v", path, got, want, cfg.Problems)
		}
	}
}
