package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// logBuffer is a log in which a test waits for a line.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // has an element when something was written since it was read
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

// wait returns when text has been written n times, or fails the test after ten seconds, which is far more than a start takes.
func (l *logBuffer) wait(t *testing.T, n int, text string) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		l.mu.Lock()
		all := l.text.String()
		l.mu.Unlock()
		if strings.Count(all, text) >= n {
			return
		}
		select {
		case <-l.more:
		case <-limit:
			t.Fatalf("no %q, %d times, in:\n%s", text, n, all)
		}
	}
}

func TestAHangupReloadsTheConfigurationAndTheServiceGoesOn(t *testing.T) {
	t.Parallel()
	spare := make(chan os.Signal, 1) // the test must outlive the signal when the service does not take it
	signal.Notify(spare, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(spare) })
	dir := shortDir(t)
	config := filepath.Join(dir, "config.yaml")
	text := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  runtime: {socket: " + dir + "/nri.sock}\n  pluginDirs: [" + dir + "]\n" +
		"  runDir: " + dir + "/run\n  stateDir: " + dir + "/state\n  metrics: {address: \"127.0.0.1:0\"}\n  fileTrust: \"off\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, code := &logBuffer{more: make(chan struct{}, 1)}, make(chan int, 1)
	go func() { code <- run(ctx, []string{"run", "--config", config, "--log-format", "json"}, log, log) }()
	log.wait(t, 1, `"listening"`)
	for n := 1; n <= 2; n++ {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		log.wait(t, n, `"cause":"SIGHUP","result":"success"`)
	}
	select {
	case c := <-code:
		t.Errorf("the service ended with exit code %d", c)
	default:
	}
	cancel()
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d after the stop", c)
	}
}
