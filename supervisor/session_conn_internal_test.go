package supervisor

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestAConnectionThatTheRuntimeDoesNotReadIsClosed: its end is noticed by who reads, and a new one is made.
func TestAConnectionThatTheRuntimeDoesNotReadIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, runtimes := net.Pipe() // without a buffer: a write waits for its reader
		defer runtimes.Close()
		c := &stallConn{Conn: ours, limit: writeStall, lost: make(chan struct{})}
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		begin := time.Now()
		_, err := c.Write([]byte("reply"))
		if took := time.Since(begin); !errors.Is(err, os.ErrDeadlineExceeded) || took != writeStall {
			t.Errorf("write: %v after %s, want the deadline after %s", err, took, writeStall)
		}
		if err := <-read; err == nil {
			t.Error("the reader does not notice")
		}
	})
}
