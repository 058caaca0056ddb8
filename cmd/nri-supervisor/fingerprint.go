package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// fingerprints remembers the SHA-256 of executed files, so that a plugin that restarts often is read once. Safe for concurrent use; the zero value is ready for use.
type fingerprints struct {
	mu    sync.Mutex
	known map[fileID]string
}

// fileID tells one content of one file from another without reading it.
type fileID struct {
	dev, ino           uint64
	size, mtime, ctime int64
}

// of returns the SHA-256, in hexadecimal, of the very file that the process executes, whatever its path names by now. It is empty when the process is gone, or when ctx ends before the file was read.
func (f *fingerprints) of(ctx context.Context, pid int) string {
	sum := make(chan string, 1)
	go func() { sum <- f.read(pid) }()
	select {
	case s := <-sum:
		return s
	case <-ctx.Done():
		return ""
	}
}

func (f *fingerprints) read(pid int) string {
	exe, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	defer func() { _ = exe.Close() }()
	info, err := exe.Stat()
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	id := fileID{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
	f.mu.Lock()
	known, ok := f.known[id]
	f.mu.Unlock()
	if ok {
		return known
	}
	h := sha256.New()
	if _, err := io.Copy(h, exe); err != nil {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[fileID]string{}
	}
	if len(f.known) >= 1024 { // far more plugins than a node has: old versions of files that changed
		clear(f.known)
	}
	sum := hex.EncodeToString(h.Sum(nil))
	f.known[id] = sum
	return sum
}
