package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// boot is what a start begins with.
type boot struct {
	source policy.LoadOptions
	config *policy.Config
	stale  string // why config is older than the broken file on disk; empty: it is not
	db     *state.DB
	found  state.Loaded

	problem problems
}

// load reads the configuration. In the place of a configuration file that is broken comes its last good version, if the state has one; else there is nothing to start with.
func load(source policy.LoadOptions) (*boot, error) {
	b := &boot{source: source}
	cfg, err := policy.Load(source)
	if err == nil {
		b.config = cfg
		return b, nil
	}
	if b.standIn(err) {
		return b, nil
	}
	return nil, hintError{err, []string{"nri-supervisor check --config " + source.ConfigFile + " shows every mistake"}}
}

// open opens the state, if it is not open yet, and puts the last good versions of manifests in the place of those that are broken. problem is told from now on of what is wrong with the state.
func (b *boot) open(problem func(error)) {
	b.problem.to(problem)
	if b.db == nil {
		b.db, b.found = state.Open(b.config.Supervisor.StateDir, state.Options{OnError: b.problem.report})
	}
	if b.stale != "" || len(b.config.Problems.Errors()) == 0 {
		return
	}
	source := b.source
	if _, source.LastGood = b.lastGood(b.config.Supervisor.StateDir); len(source.LastGood) == 0 {
		return
	}
	if mended, err := policy.Load(source); err == nil {
		b.config = mended
	}
}

// close ends the state, if it was opened.
func (b *boot) close(log *zap.Logger) {
	if b.db == nil {
		return
	}
	ctx, cancel := closing()
	defer cancel()
	if err := b.db.Close(ctx); err != nil {
		briefly(func() { log.Error("state directory", zap.Error(err)) })
	}
}

// problems hands errors on as soon as there is somebody to hand them to. Safe for concurrent use; the zero value drops nothing but what comes before.
type problems struct {
	mu sync.Mutex
	f  func(error)
}

func (p *problems) to(f func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.f = f
}

func (p *problems) report(err error) {
	p.mu.Lock()
	f := p.f
	p.mu.Unlock()
	if f != nil {
		f(err)
	}
}

// lastGood returns the last good configuration, if nobody but root and we can have written it: what is in it is executed.
func (b *boot) lastGood(dir string) (document string, manifests []policy.GoodManifest) {
	if !trusted(dir) {
		return "", nil
	}
	return supervisor.LastGood(b.found)
}

// standIn makes the last good configuration the one to start with. It reports false when there is none.
func (b *boot) standIn(broken error) bool {
	if b.source.ConfigFile == "" {
		return false
	}
	for _, dir := range stateDirs(b.source.ConfigFile) {
		if _, err := os.Stat(dir); err != nil || !trusted(dir) {
			continue
		}
		b.db, b.found = state.Open(dir, state.Options{OnError: b.problem.report})
		o := b.source
		if o.Supervisor, o.LastGood = b.lastGood(dir); o.Supervisor != "" {
			if cfg, err := policy.Load(o); err == nil {
				b.config, b.stale = cfg, firstProblem(broken)
				return true
			}
		}
		closed(b.db)
		b.db = nil
	}
	return false
}

// stateDirs are where the state of a broken configuration may be: where it says, as far as that can be read, and the default.
func stateDirs(config string) []string {
	var dirs []string
	if text, err := os.ReadFile(config); err == nil {
		for _, m := range regexp.MustCompile(`\bstateDir:\s*["']?(/[^"'\s,}#]+)`).FindAllSubmatch(text, 2) {
			dirs = append(dirs, filepath.Clean(string(m[1])))
		}
	}
	if cfg, err := policy.Parse(nil, policy.LoadOptions{}); err == nil {
		dirs = append(dirs, cfg.Supervisor.StateDir)
	}
	return dirs
}

// trusted reports whether only root and we can write to the folder.
func trusted(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// closed ends a state that is of no use.
func closed(db *state.DB) {
	ctx, cancel := closing()
	defer cancel()
	_ = db.Close(ctx) // nothing was put
}

// prepareRunDir makes the run directory and reports whether this is the first run since the boot: the directory is on a file system that a boot empties, or the boot id differs.
// Where the boot id cannot be kept, as in a full file system, unknown says why: the next run will take itself for the first one as well.
func prepareRunDir(dir string) (firstSinceBoot bool, unknown, err error) {
	if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // as below
		return false, nil, hintError{fmt.Errorf("run directory: %w", err), []string{"run as root, or set runDir to a folder that this user can make"}}
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // plugins with other users pass through it to their own folders
		return false, nil, fmt.Errorf("run directory: %w", err)
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return false, nil, fmt.Errorf("run directory: %w", err)
	}
	marker := filepath.Join(dir, "boot-id")
	old, err := os.ReadFile(marker)
	if err == nil && string(old) == string(id) {
		return false, nil, nil
	}
	if err := os.WriteFile(marker, id, 0o600); err != nil { //nolint:gosec // the run directory is the administrator's choice
		_ = os.Remove(marker) // of a full file system an empty file would be left
		return true, fmt.Errorf("keep the boot id: %w: make room there", err), nil
	}
	return true, nil, nil
}
