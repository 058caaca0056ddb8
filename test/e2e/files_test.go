package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// write writes a file that anybody may read and execute, with its folder.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // seen from containers
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // some are hooks
		t.Fatal(err)
	}
}

// read is what a file holds; empty if there is none.
func read(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// event is one line of a stock plugin's record.
type event struct {
	Event, Pod, PodName, ID string
	PID                     int
}

// record reads what a stock plugin wrote down.
func record(t *testing.T, path string) []event {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []event
	for l := range bytes.Lines(data) {
		if !bytes.HasSuffix(l, []byte("\n")) {
			break // being written
		}
		var e event
		if err := json.Unmarshal(l, &e); err != nil {
			t.Fatalf("%s: %q: %v", path, l, err)
		}
		all = append(all, e)
	}
	return all
}
