package isolation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// watchSocketEvery is how often a dock looks whether its socket is still there: a pod that has the folder mounted writable can remove it, and its own plugin
// cannot dial any more. It costs one look at a file.
const watchSocketEvery = time.Second

// watch makes the socket anew whenever its file is gone or another one lies there. The folder is never made anew: pods have the old one mounted.
func (d *Dock) watch() {
	tick := time.NewTicker(d.spec.WatchEvery)
	defer tick.Stop()
	told := "" // the error that was reported last
	for {
		select {
		case <-d.closing:
			return
		case <-tick.C:
		}
		d.mu.Lock()
		there := d.socket.there()
		d.mu.Unlock()
		if there {
			told = ""
			continue
		}
		err := d.remake()
		if err != nil && err.Error() == told {
			continue
		}
		told = ""
		if err != nil {
			told = err.Error()
		}
		if d.spec.OnRemade != nil {
			d.spec.OnRemade(err)
		}
	}
}

// there tells whether the file by which the socket is reached is the one that was made.
func (s *attachSocket) there() bool {
	info, err := os.Lstat(s.path)
	return err == nil && os.SameFile(info, s.info)
}

// remake listens at the path again, with a new file, and gives up the old listener, which nobody can reach.
func (d *Dock) remake() error {
	folder := filepath.Dir(d.spec.Socket)
	if _, err := os.Stat(folder); err != nil {
		return fmt.Errorf("make the socket anew: folder %q: %w: pods may have the old one mounted, so restart them when it is there again", folder, causeOf(err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit) // of the question who answers there
	defer cancel()
	s, err := listenAt(ctx, d.spec.Socket, d.spec.AllowUIDs)
	if err != nil {
		return fmt.Errorf("make the socket anew: %w", err)
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return s.Close()
	}
	old := d.socket
	d.socket = s
	d.work.Go(func() { d.accept(s) }) // Close waits only after it has the lock
	d.mu.Unlock()
	return old.Close()
}
