package filelook

import (
	"slices"
	"time"
)

const (
	// firstFor is for how long a mount that has answered is looked at without asking anew. What ends its answers in that time is met by a thread of this process.
	firstFor = time.Second
	// mountsFor is for how long the list of mounts is used: on a full node it is long, and a path has many parts.
	mountsFor = 200 * time.Millisecond
)

// firsts are the first looks at mounts with a server. They are guarded by Looks.mu.
type firsts struct {
	byMount map[int]chan struct{} // closed when the look has ended
	list    []mount               // of mounts, with a server
	read    time.Time
}

// ask lets Looks.First look at a place that lies on a mount with a server, and returns when that has ended. There is one such look at a mount at a time.
func (l *Looks) ask(place string) {
	if l.First == nil {
		return
	}
	l.mu.Lock()
	m, ok := l.servedLocked(place)
	if !ok {
		l.mu.Unlock()
		return
	}
	f := l.first.byMount[m.id]
	if f == nil {
		f = make(chan struct{})
		if l.first.byMount == nil {
			l.first.byMount = map[int]chan struct{}{}
		}
		l.first.byMount[m.id] = f
		go l.look(m, place, f)
	}
	l.mu.Unlock()
	<-f
}

// look makes a first look, and forgets it when it is worth nothing any more.
func (l *Looks) look(m mount, place string, f chan struct{}) {
	l.First(place)
	close(f)
	time.AfterFunc(firstFor, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.first.byMount[m.id] == f {
			delete(l.first.byMount, m.id)
		}
	})
}

// servedLocked is the mount of a place if it has a server. The root's is none: nothing goes without it.
func (l *Looks) servedLocked(place string) (mount, bool) {
	if time.Since(l.first.read) > mountsFor {
		l.first.list, l.first.read = mounts(), time.Now()
		if !slices.ContainsFunc(l.first.list, func(m mount) bool { return m.point != "/" && served(m.kind) }) {
			l.first.list = nil
		}
	}
	if len(l.first.list) == 0 {
		return mount{}, false
	}
	m := mountOf(l.first.list, place)
	return m, m.point != "/" && m.point != "" && served(m.kind)
}
