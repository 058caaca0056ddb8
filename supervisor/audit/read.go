package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

const (
	// maxNumbered is how many rotated files are looked for at most.
	maxNumbered = 1000
	// maxLine is the longest line in bytes that is read; a decision with all that it may have is below 64 KiB, the list of 10,000 plugins below 1 MiB.
	maxLine = 1 << 20
)

// Read calls each for the decisions in the file and the rotated ones before it, oldest first. containing are texts of which a line must have all to be looked at, which is quick; a line
// that is damaged is left out. Files that are rotated meanwhile may be missed or read twice. It ends with the context's error, and with one that wraps fs.ErrNotExist when there is no file at all.
func Read(ctx context.Context, path string, containing []string, each func(journal.Decision)) error {
	found := false
	last := 0
	for n := 1; n < maxNumbered; n++ {
		if _, err := os.Lstat(numbered(path, n)); err != nil {
			break
		}
		last = n
	}
	for n := last; n >= 0; n-- {
		err := readFile(ctx, numbered(path, n), containing, each)
		switch {
		case err == nil:
			found = true
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if !found {
		return fmt.Errorf("open %q: %w", path, fs.ErrNotExist)
	}
	return nil
}

func readFile(ctx context.Context, path string, containing []string, each func(journal.Decision)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open %q: %w", path, reason(err))
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %q: %w", path, reason(err))
		}
		var d journal.Decision
		if hasAll(line, containing) && json.Unmarshal(line, &d) == nil {
			each(d)
		}
		if err != nil {
			return nil
		}
	}
}

// readLine returns the next line; a longer one than maxLine is cut, and so damaged.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	out := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = r.ReadSlice('\n')
		if len(out) <= maxLine {
			out = append(out, line...)
		}
	}
	return out, err
}

func hasAll(line []byte, texts []string) bool {
	for _, t := range texts {
		if !bytes.Contains(line, []byte(t)) {
			return false
		}
	}
	return len(line) > 0
}
