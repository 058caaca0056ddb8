package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	fileName = "state.db"
	lockName = "state.lock"
	newName  = fileName + ".new"

	// firstLock is how long Open waits for a supervisor that is just ending.
	firstLock = 2 * time.Second
	// lockEvery is how often it looks.
	lockEvery = 20 * time.Millisecond

	// maxFile bounds what is read. DefaultMaxRecords of a usual size make 10 MiB, and a file
	// is rewritten when it has twice of that.
	maxFile = 256 << 20
)

// disk is the folder with the file in it. The folder is locked from the first
// success on, also while the file is closed.
type disk struct {
	dir  string
	lock *os.File
	file *os.File
	end  int64 // where the next frame goes
	// stale is true when the file must be written anew: what is in it is not known, or not good.
	stale bool
}

// found is what an attempt to open came upon.
type found struct {
	changes []change
	first   bool // there was nothing before
	lost    bool // there was something before that could not be read, at least in part
	warning string
}

func filePath(dir string) string { return filepath.Join(dir, fileName) }

// open gets hold of the folder and the file, and reads it. A damaged file is
// set aside; found.warning says so then, and found.changes is what could be
// read. After an error there is no file, and found tells only what was there before.
func (d *disk) open(wait time.Duration) (found, error) {
	f := found{lost: true} // until it was read
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return f, err
	}
	former := len(badFiles(d.dir)) > 0
	if d.lock == nil {
		_, err := os.Lstat(filepath.Join(d.dir, lockName))
		former = former || !errors.Is(err, fs.ErrNotExist)
		if d.lock, err = lockFolder(d.dir, wait); err != nil {
			return f, err
		}
	}

	content, err := readFile(filePath(d.dir))
	if errors.Is(err, fs.ErrNotExist) {
		f.first, f.lost = !former, former
		if former {
			f.warning = fmt.Sprintf("%s is gone, although there was one: what it held is lost", filePath(d.dir))
		}
		return f, d.create()
	}
	var got decoded
	var unusable unusableError
	switch {
	case errors.As(err, &unusable):
		got.damaged, got.foreign = err.Error(), true
	case err != nil:
		return f, err
	default:
		got = decode(content)
	}
	if got.damaged != "" {
		aside, err := setAside(d.dir)
		if err != nil {
			return f, fmt.Errorf("%s; set it aside: %w", got.damaged, err)
		}
		f.warning = fmt.Sprintf("%s was set aside as %s: %s", filePath(d.dir), aside, got.damaged)
		if !got.foreign {
			f.warning += fmt.Sprintf("; %d changes could be read", len(got.changes))
		}
		f.changes = got.changes
		return f, d.create()
	}
	f.changes, f.lost = got.changes, false
	d.file, err = os.OpenFile(filePath(d.dir), os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return found{lost: true}, err
	}
	d.end = int64(got.end)
	return f, nil
}

// create makes a new file, of which nobody ever sees a part, and which is still to be filled.
func (d *disk) create() error {
	err := d.rewrite(nil)
	d.stale = err == nil
	return err
}

// homeless tells whether somebody took the folder away, or put another in its place.
func (d *disk) homeless() bool {
	is, err := os.Lstat(filepath.Join(d.dir, lockName))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	ours, err := d.lock.Stat()
	return err == nil && !os.SameFile(is, ours)
}

// unusableError is about a file that there is no point in reading.
type unusableError string

func (e unusableError) Error() string { return string(e) }

func readFile(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, unusableError(fmt.Sprintf("it is not a regular file but has mode %s", info.Mode()))
	case info.Size() > maxFile:
		return nil, unusableError(fmt.Sprintf("it has %d bytes, the limit is %d", info.Size(), maxFile))
	}
	return os.ReadFile(path)
}

// add writes changes behind what is there. If that fails, the file is as it
// was, or stale.
func (d *disk) add(changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	var frames []byte
	for _, c := range changes {
		frames = appendFrame(frames, c)
	}
	if _, err := d.file.WriteAt(frames, d.end); err != nil {
		// Half a frame is one thing, whole old ones behind new ones another.
		d.stale = d.file.Truncate(d.end) != nil
		return err
	}
	if err := d.file.Sync(); err != nil {
		d.stale = true // the system may have thrown away what it could not write
		return err
	}
	d.end += int64(len(frames))
	return nil
}

// rewrite puts a new file with these changes in the place of the old one. If
// that fails, the old one stays.
func (d *disk) rewrite(changes []change) error {
	path := filepath.Join(d.dir, newName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	size, err := writeAll(f, changes)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(path, filePath(d.dir))
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	d.closeFile()
	d.file, d.end, d.stale = f, size, false
	return syncDir(d.dir) // or a crash of the machine could bring the old file back
}

func writeAll(w io.Writer, changes []change) (int64, error) {
	size := int64(0)
	buf := []byte(header)
	for i := 0; ; i++ {
		if i == len(changes) || len(buf) >= writeSize {
			n, err := w.Write(buf)
			size += int64(n)
			if err != nil || i == len(changes) {
				return size, err
			}
			buf = buf[:0]
		}
		buf = appendFrame(buf, changes[i])
	}
}

// writeSize is about how much goes into one write.
const writeSize = 1 << 20

// changed tells whether somebody took the file away, put another in its place, or cut it.
func (d *disk) changed() bool {
	is, err := os.Lstat(filePath(d.dir))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	ours, err := d.file.Stat()
	return err == nil && (!os.SameFile(is, ours) || ours.Size() != d.end)
}

func (d *disk) closeFile() {
	if d.file != nil {
		_ = d.file.Close() // everything confirmed was synced
		d.file = nil
	}
}

func (d *disk) close() {
	d.closeFile()
	if d.lock != nil {
		_ = d.lock.Close() // and that unlocks the folder; nothing was written to it
		d.lock = nil
	}
}

// lockFolder keeps other supervisors out of the folder, for as long as the file
// that it returns is open.
func lockFolder(dir string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	again := time.NewTicker(lockEvery)
	defer again.Stop()
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			select {
			case <-again.C:
				continue
			case <-deadline.C:
				err = errors.New("another process uses it")
			}
		}
		return nil, errors.Join(err, f.Close())
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
