package wire_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// quickPair is a socket pair whose first end is quick.
func quickPair(t *testing.T) (quick, other net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = ends[0].Close(), ends[1].Close() })
	return wire.Quick(ends[0]), ends[1]
}

func TestAQuickConnectionCarriesWhatItIsGiven(t *testing.T) {
	t.Parallel()
	a, b := quickPair(t)
	want := bytes.Repeat([]byte("0123456789"), 1<<18) // more than a socket takes: both sides have to wait
	wrote := make(chan error, 1)
	go func() {
		n, err := a.Write(want)
		if err == nil && n != len(want) {
			err = io.ErrShortWrite
		}
		wrote <- err
	}()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("other bytes, or %v", err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := b.Write(want)
		wrote <- err
	}()
	if _, err := io.ReadFull(a, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("other bytes, or %v", err)
	}
	if err := errors.Join(<-wrote, b.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Read(got); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d, %v", n, err)
	}
	if _, err := a.Write(want); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("to nobody: %v", err)
	}
}

func TestAQuickConnectionKeepsItsDeadlinesAndEndsWhenItIsClosed(t *testing.T) {
	t.Parallel()
	a, _ := quickPair(t)
	soon := time.Now().Add(20 * time.Millisecond)
	if err := a.SetDeadline(soon); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	if _, err := a.Write(make([]byte, 4<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
	if err := a.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := a.Read(make([]byte, 1))
		read <- err
	}()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("read when it was closed: %v", err)
	}
}

func TestWhatIsNoSocketStaysAsItIs(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	if wire.Quick(a) != a {
		t.Error("it was wrapped")
	}
}
