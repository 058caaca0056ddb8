//go:build root

package isolation_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// TestWhatAPluginReachesIsWhatItCanWrite: a program that comes after a plugin's start is not kept from it, and one that is replaced is so no more.
func TestWhatAPluginReachesIsWhatItCanWrite(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	dir := programs(t)
	kept, late, own := dir+"/a/kept", dir+"/a/b/late", tempDir(t)+"/own"
	install(t, kept, []byte("#!/bin/sh\n"))
	c := isolation.Standard([]string{runDir})
	c.Protect = append(c.Protect, kept)
	early := start(t, spec(t, h, runDir, c))
	install(t, late, []byte("#!/bin/sh\n"))
	install(t, own, []byte("#!/bin/sh\n"))
	c.Protect = append(c.Protect, late)
	knowing, strict := start(t, spec(t, h, runDir, c)), start(t, spec(t, h, runDir, isolation.Strict([]string{runDir})))
	check := func(when string, i *isolation.Instance, path string, want isolation.Reach) {
		t.Helper()
		got, err := i.Reach(path)
		if got == isolation.ReachedElsewhere { // whether it can write to that file system at all is the host's business
			got = isolation.Unreached
		}
		if err != nil || got != want {
			t.Errorf("%s, %s: %s, %v, want %s", when, path, got, err, want)
		}
		wrote := ask(t, i, "write:"+path) == "ok"
		if data, err := os.ReadFile(path); err != nil || wrote && want != isolation.Unreached != (string(data) == "x") {
			t.Errorf("%s, %s: written %v, and it holds %q, %v", when, path, wrote, data, err)
		}
		if want == isolation.ReachedReadOnly && wrote || want == isolation.ReachedWritable && !wrote {
			t.Errorf("%s, %s is %s: written %v", when, path, want, wrote)
		}
	}
	check("kept since the start", early, kept, isolation.ReachedReadOnly)
	check("known at the start", knowing, late, isolation.ReachedReadOnly)
	check("a private folder", early, own, isolation.Unreached)
	check("not among the folders of strict", strict, kept, isolation.Unreached)
	check("added after the start", early, late, isolation.ReachedWritable)
	install(t, kept+".new", []byte("#!/bin/sh\n"))
	if err := os.Rename(kept+".new", kept); err != nil {
		t.Fatal(err)
	}
	check("replaced since", early, kept, isolation.ReachedWritable)
	early.Kill(isolation.ReasonStopped)
	wait(t, early.Done(), "it has ended")
	if got, err := early.Reach(kept); err == nil && alive(early.PID()) || err != nil && !errors.Is(err, os.ErrNotExist) && !strings.Contains(err.Error(), "no such process") {
		t.Errorf("after its end: %s, %v", got, err)
	}
}
