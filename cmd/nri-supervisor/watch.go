package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/filelook"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

const (
	// settleFor is how long files must be left alone before they are read: an editor, a package manager or kubelet writes several in a row.
	settleFor = 250 * time.Millisecond
	// settleMost is the longest wait for that.
	settleMost = 2 * time.Second
	// lookEvery is how often the files are read without a notice, for file systems that give none.
	lookEvery = time.Minute
)

// reloader is what the watch tells of changes.
type reloader interface {
	Reload(ctx context.Context, cause string) (supervisor.ReloadReport, error)
	ReloadChanged(ctx context.Context, cause string) (bool, error)
	Config() *policy.Config
}

// watchFiles reloads the configuration when one of its files, or a file that a manifest refers to, may have changed, and when hangup says so. It returns when ctx ends.
func watchFiles(ctx context.Context, source *policy.LoadOptions, hangup <-chan struct{}, r reloader, systemd *notifier, log *zap.Logger) {
	configFile, looks := source.ConfigFile, source.Looks
	var answered <-chan struct{}
	if looks != nil {
		answered = looks.Answered()
	}
	w, err := fsnotify.NewWatcher()
	var events <-chan fsnotify.Event
	var errs <-chan error
	if err != nil {
		log.Warn("files are not watched, but read once a minute", zap.Error(err))
	} else {
		defer func() { _ = w.Close() }()
		events, errs = w.Events, w.Errors
	}
	watched := map[string]bool{}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	settled := time.NewTimer(time.Hour)
	settled.Stop()
	var since time.Time // of the first notice that waits; zero: none does
	notice := func() {
		if since.IsZero() {
			since = time.Now()
		}
		settled.Reset(max(0, min(settleFor, settleMost-time.Since(since))))
	}
	var running sync.WaitGroup
	defer running.Wait()
	over := make(chan struct{}, 1)
	reload := func(f func()) { // beside the watch: a reload waits for plugins that change, and the next change may mend them
		running.Go(func() {
			f()
			select {
			case over <- struct{}{}:
			default:
			}
		})
	}
	links := linked(looks, configFile, r.Config()) // looked for beside each reading: a folder may hold thousands of manifests, and change as often
	for {
		if w != nil {
			follow(w, watched, looks, configFile, r.Config(), links)
		}
		select {
		case <-ctx.Done():
			return
		case <-over: // there may be other files to follow
			links = linked(looks, configFile, r.Config())
		case <-hangup:
			done := systemd.reloading()
			reload(func() { // mistakes are told in the log, here and below
				defer done()
				_, _ = r.Reload(ctx, "SIGHUP")
			})
		case ev := <-events:
			if ev.Op != fsnotify.Chmod || concerns(ev.Name) {
				notice()
			}
		case <-errs: //nolint:errcheck // an overflow of the queue: whatever it was, the files tell
			notice()
		case <-answered: // what was refused because it did not answer
			notice()
		case <-look.C:
			reload(func() { _, _ = r.ReloadChanged(ctx, "look") })
		case <-settled.C:
			since = time.Time{}
			links = linked(looks, configFile, r.Config())
			reload(func() { _, _ = r.ReloadChanged(ctx, "watch") })
		}
	}
}

// concerns reports whether a change of mode alone can matter: that of a manifest can, when it was refused for it.
func concerns(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// manifestDir is where a folder of manifests is.
func manifestDir(configFile, dir string) string {
	if !filepath.IsAbs(dir) && configFile != "" {
		dir = filepath.Join(filepath.Dir(configFile), dir)
	}
	return filepath.Clean(dir)
}

// linked are the manifests that are links: what they link to may be in a folder that the configuration does not name.
func linked(looks *filelook.Looks, configFile string, cfg *policy.Config) []string {
	var out []string
	for _, dir := range cfg.Supervisor.PluginDirs {
		dir = manifestDir(configFile, dir)
		entries, _ := filelook.Ask(looks, dir, func() []fs.DirEntry {
			entries, _ := os.ReadDir(dir)
			return entries
		}) // that it is not there, or does not answer, is for the reload to say
		for _, e := range entries {
			if e.Type()&fs.ModeSymlink != 0 && concerns(e.Name()) {
				out = append(out, filepath.Join(dir, e.Name()))
			}
		}
	}
	return out
}

// follow watches the folders that the configuration is made of now, and no others. Folders are watched rather than files, because files are replaced.
func follow(w *fsnotify.Watcher, watched map[string]bool, looks *filelook.Looks, configFile string, cfg *policy.Config, links []string) {
	want := map[string]bool{}
	add := func(dir string) {
		want[dir] = true
		if resolved, ok := looks.Resolved(dir); ok {
			want[resolved] = true
		}
		want[filepath.Dir(dir)] = true // it may be replaced as a whole
	}
	file := func(path string) {
		want[filepath.Dir(path)] = true
		if resolved, ok := looks.Resolved(path); ok {
			want[filepath.Dir(resolved)] = true
		}
	}
	if configFile != "" {
		file(configFile)
	}
	for _, dir := range cfg.Supervisor.PluginDirs {
		add(manifestDir(configFile, dir))
	}
	for _, link := range links {
		file(link)
	}
	for _, p := range cfg.Plugins {
		if p.Spec.ConfigFrom != nil {
			file(p.Spec.ConfigFrom.File)
		}
	}
	for dir := range watched {
		if !want[dir] {
			_ = w.Remove(dir) // it may be gone already
			delete(watched, dir)
		}
	}
	for dir := range want {
		if looks.Try(dir, func() error { return w.Add(dir) }) == nil { // again: the folder may be another one under the same name
			watched[dir] = true
		}
	}
}
