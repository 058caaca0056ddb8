package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestAnAuditAmongTheFilesThatPluginsMayMakeIsRefused(t *testing.T) {
	t.Parallel()
	for path, folder := range map[string]string{
		"/var/log/audit.jsonl": "/var/log", "/var/lib//audit.jsonl": "/var/lib", "/var/log/nri-supervisor/audit.jsonl": "", "/var/lib/nri-supervisor/audit.jsonl": "",
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		text := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {pluginDirs: [/srv/none], audit: {path: " + path + "}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := policy.Load(policy.LoadOptions{ConfigFile: file})
		switch {
		case folder == "" && err != nil:
			t.Errorf("%s: %v", path, err)
		case folder != "" && (err == nil || !strings.Contains(err.Error(), "write a folder of its own, such as "+folder+"/nri-supervisor/audit.jsonl")):
			t.Errorf("%s: %v, want an error that says what to write", path, err)
		}
	}
}
