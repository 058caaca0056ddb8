package main

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
)

func TestTheAuditsFileIsThereBeforeThePluginsAreAndKeepsWhatItHolds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audits", "audit.jsonl")
	makeAudit(file, zap.NewNop())
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	makeAudit(file, zap.NewNop())
	if data, err := os.ReadFile(file); err != nil || string(data) != "kept" {
		t.Errorf("%q, %v", data, err)
	}
}
