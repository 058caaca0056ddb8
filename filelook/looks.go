package filelook

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/filetrust"
)

// Limit is how long a look may take. A busy disk answers within a second; each mount that does not answer costs it once.
const Limit = 2 * time.Second

// Looks are the looks of one process. The zero value is ready for use; nil looks without a limit.
type Looks struct {
	// First looks at a place in another process than this one, and returns when that process has ended, whatever came of it. It is called before this process looks at a mount of a file system with a
	// server, for one place of a mount at a time: a thread that waits for such a server may not even end with its process, which then stays as well. Nil: this process makes all looks itself. It is
	// not changed after the first look.
	First func(place string)

	mu      sync.Mutex
	pending map[string]*look // by the path that was asked for
	silent  map[string]*look // those beyond the limit, by what does not answer: a mount, or the path alone
	known   map[string]string
	first   firsts
	// answered is signalled when a look beyond the limit has ended.
	answered chan struct{}
}

// look is one look. Its fields are guarded by Looks.mu, but for done, and err once that is closed.
type look struct {
	since time.Time
	place string // what is looked at on the way; "" behind it
	at    string // its key in Looks.silent; "" within the limit
	mount int    // the number of the mount that does not answer; 0: none is known
	done  chan struct{}
	err   error
}

// SilentError is the error of a look at what does not answer.
type SilentError struct {
	// Path is what was asked for.
	Path string
	// At is what does not answer: the place of a mount, or a path.
	At string
	// Since is when it was asked.
	Since time.Time
}

// Error names the place and the time.
func (e *SilentError) Error() string {
	text := fmt.Sprintf("does not answer since %s", e.Since.Format(time.DateTime))
	if e.At != e.Path {
		text = fmt.Sprintf("%q %s", e.At, text)
	}
	return text + ": see to its file system, or unmount it"
}

// Ask does f, which looks at what is at a path, and returns what f returns. The error is a *SilentError if there was no answer; f then still runs, or never will. f must not ask for the same path, nor
// touch what its caller uses.
func Ask[T any](l *Looks, path string, f func() T) (T, error) {
	if l == nil {
		return f(), nil
	}
	result := make(chan T, 1)
	if err := l.run(path, func() { result <- f() }); err != nil {
		var none T
		return none, err
	}
	return <-result, nil
}

// Read is Ask for an f that can fail: the error is that of f, or a *SilentError.
func Read[T any](l *Looks, path string, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	got, silent := Ask(l, path, func() (a answer) {
		a.value, a.err = f()
		return a
	})
	if silent != nil {
		return got.value, silent
	}
	return got.value, got.err
}

// Try is Ask for an f that returns nothing but an error.
func (l *Looks) Try(path string, f func() error) error {
	_, err := Read(l, path, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Answers goes the way to a path, and returns a *SilentError if there was no answer. Whether there is something is not said.
func (l *Looks) Answers(path string) error { return l.Try(path, func() error { return nil }) }

// Resolved is the path without links; of one that does not answer, or is not there by now, what it was last, if that is known, else false.
func (l *Looks) Resolved(path string) (string, bool) {
	type answer struct {
		target string
		err    error
	}
	got, silent := Ask(l, path, func() answer {
		target, err := filepath.EvalSymlinks(path)
		return answer{target, err}
	})
	if silent == nil && l == nil {
		return got.target, got.err == nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case silent != nil:
		target, ok := l.known[path]
		return target, ok
	case got.err != nil:
		delete(l.known, path)
		return "", false
	}
	if l.known == nil {
		l.known = map[string]string{}
	}
	l.known[path] = got.target
	return got.target, true
}

// Answered is signalled when something answers again.
func (l *Looks) Answered() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answeredLocked()
}

func (l *Looks) answeredLocked() chan struct{} {
	if l.answered == nil {
		l.answered = make(chan struct{}, 1)
	}
	return l.answered
}

// run does f on a goroutine of its own, when no other look at the path is made.
func (l *Looks) run(path string, f func()) error {
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	for {
		l.mu.Lock()
		p := l.pending[path]
		if p != nil && p.at != "" && l.goneLocked(p) {
			p = nil // what hangs there is another mount than the one by now
		}
		if p == nil {
			break
		}
		at := p.at
		l.mu.Unlock()
		if at != "" {
			return &SilentError{path, at, p.since}
		}
		select {
		case <-p.done:
		case <-timer.C:
			return l.overdue(path, p)
		}
	}
	own := &look{since: time.Now(), done: make(chan struct{})}
	if l.pending == nil {
		l.pending, l.silent = map[string]*look{}, map[string]*look{}
	}
	l.pending[path] = own
	l.mu.Unlock()
	go func() {
		deaf(func() {
			if own.err = l.walk(path, own); own.err == nil {
				f()
			}
		})
		l.end(path, own)
	}()
	select {
	case <-own.done:
		return own.err
	case <-timer.C:
		return l.overdue(path, own)
	}
}

// walk goes the way to a path, and stops before what is known not to answer. What else is wrong with the way is for f to say.
func (l *Looks) walk(path string, own *look) error {
	var silent error
	_, _, _ = filetrust.Walk(path, func(place string) error { //nolint:dogsled // as above
		if silent = l.reach(path, place, own); silent == nil {
			l.ask(place)
		}
		return silent
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	own.place = ""
	return silent
}

// reach notes that a look has come to a place, and says whether that is known not to answer.
func (l *Looks) reach(path, place string, own *look) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own.place = place
	if by := l.coveringLocked(place); by != nil {
		return &SilentError{path, by.at, by.since}
	}
	return nil
}

func (l *Looks) end(path string, own *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(own.done)
	if l.pending[path] == own {
		delete(l.pending, path)
	}
	if own.at == "" {
		return
	}
	if l.silent[own.at] == own {
		delete(l.silent, own.at)
	}
	select {
	case l.answeredLocked() <- struct{}{}:
	default: // one signal is enough
	}
}
