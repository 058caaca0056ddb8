//go:build root

package isolation_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fuseServer serves a folder in which each name is the same program, until it is stopped as by SIGSTOP, or is dead.
type fuseServer struct {
	place   string
	program []byte

	mu     sync.Mutex // held while a request is taken and answered
	fd     int
	frozen bool
	deaf   bool
	asked  time.Time // when the last request came
}

// serveFuse mounts it for the time of the test.
func serveFuse(t *testing.T, place string, program []byte) *fuseServer {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == nil {
		err = os.Mkdir(place, 0o755)
	}
	if err == nil {
		err = unix.Mount("test", place, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions", fd))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &fuseServer{place: place, program: program, fd: fd}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	t.Cleanup(func() {
		s.die()
		_ = unix.Unmount(place, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		serving.Wait()
	})
	return s
}

// freeze ends its answers: what is asked from now on waits.
func (s *fuseServer) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = true
}

// swallow ends its answers, and goes on to take requests: who waits for the answer to one that was taken cannot even be killed.
func (s *fuseServer) swallow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = true
}

// idle waits until nobody has asked anything for some seconds: who waits for an answer then has begun to look after that.
func (s *fuseServer) idle(t *testing.T) {
	t.Helper()
	const quiet = 3 * time.Second
	eventually(t, "nobody asks the server", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return time.Since(s.asked) > quiet
	})
}

// die ends the connection: what is asked ends with ENOTCONN.
func (s *fuseServer) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
		s.fd = -1
	}
}

func (s *fuseServer) serve() {
	request := make([]byte, 1<<20)
	for {
		s.mu.Lock()
		fd := s.fd
		if fd < 0 {
			s.mu.Unlock()
			return
		}
		wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if s.frozen {
			wait = nil
		} else {
			for {
				n, err := unix.Read(fd, request)
				if err != nil {
					break // none is there
				}
				s.asked = time.Now()
				if answer := s.answer(request[:n]); answer != nil && !s.deaf {
					_, _ = unix.Write(fd, answer)
				}
			}
		}
		s.mu.Unlock()
		_, _ = unix.Poll(wait, 5)
	}
}

// Requests of FUSE, linux/fuse.h.
const (
	fuseLookup, fuseForget, fuseGetattr, fuseOpen, fuseRead, fuseRelease, fuseInterrupt, fuseInit, fuseOpendir, fuseReleasedir, fuseBatchForget = 1, 2, 3, 14, 15, 18, 36, 26, 27, 29, 42

	fuseHeader = 40
)

func (s *fuseServer) answer(request []byte) []byte {
	le := binary.LittleEndian
	opcode, unique, node, body := le.Uint32(request[4:]), le.Uint64(request[8:]), le.Uint64(request[16:]), request[fuseHeader:]
	var out []byte
	var errno unix.Errno
	switch opcode {
	case fuseForget, fuseBatchForget, fuseInterrupt:
		return nil
	case fuseInit:
		out = make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint32(out[20:], 128<<10) // max_write
	case fuseLookup:
		if name, _, _ := strings.Cut(string(body), "\x00"); !strings.HasPrefix(name, "program") {
			errno = unix.ENOENT
			break
		}
		out = make([]byte, 40, 128) // nothing is valid for longer than the answer
		le.PutUint64(out, 2)
		out = append(out, s.attributes(2)...)
	case fuseGetattr:
		out = append(make([]byte, 16), s.attributes(node)...)
	case fuseOpen, fuseOpendir:
		out = make([]byte, 16)
	case fuseRead:
		from := min(le.Uint64(body[8:]), uint64(len(s.program)))
		to := min(from+uint64(le.Uint32(body[16:])), uint64(len(s.program)))
		out = s.program[from:to]
	case fuseRelease, fuseReleasedir:
	default:
		errno = unix.ENOSYS
	}
	head := make([]byte, 16, 16+len(out))
	le.PutUint32(head, uint32(16+len(out)))
	le.PutUint32(head[4:], uint32(-int32(errno)))
	le.PutUint64(head[8:], unique)
	return append(head, out...)
}

// attributes are those of the folder, 1, or of the program.
func (s *fuseServer) attributes(node uint64) []byte {
	le, out := binary.LittleEndian, make([]byte, 88)
	mode, size := uint32(unix.S_IFDIR|0o755), uint64(0)
	if node != 1 {
		mode, size = unix.S_IFREG|0o755, uint64(len(s.program))
	}
	le.PutUint64(out, node)
	le.PutUint64(out[8:], size)
	le.PutUint32(out[60:], mode)
	le.PutUint32(out[64:], 1)
	le.PutUint32(out[80:], 4096)
	return out
}
