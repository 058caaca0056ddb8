package supervisor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// reloadLimit bounds how long Reload waits for plugins that change: the default limits of a start, a Configure and a Synchronize together (45 s), and some rounds of waiting for a
// moment between two events. What takes longer goes on, and is told in the log.
const reloadLimit = time.Minute

// The results of a reload, which are label values of config_reloads_total.
const (
	reloadSuccess = "success" // all of it is in force
	reloadPartial = "partial" // it is in force but for what Problems says
	reloadFailure = "failure" // nothing is changed
)

// ReloadReport is what a reload came to. It is what `reload -o json` prints.
type ReloadReport struct {
	// Result is success, partial (some of it could not be applied) or failure (nothing was).
	Result string `json:"result"`
	// Hash is the SHA-256 of the configuration in force.
	Hash string `json:"hash"`
	// Changes are the plugins that changed, in calling order, the removed ones last.
	Changes []PluginChange `json:"changes"`
	// Unchanged is how many plugins did not.
	Unchanged int `json:"unchanged"`
	// NeedRestart are settings whose change needs a restart of the service.
	NeedRestart []string `json:"needRestart,omitempty"`
	// Problems are the mistakes in the configuration, warnings left out.
	Problems []string `json:"problems,omitempty"`
	// MoreProblems is how many there are beyond the first hundred, which Problems lists.
	MoreProblems int `json:"moreProblems,omitempty"`
}

// PluginChange is what a reload did to one plugin.
type PluginChange struct {
	Plugin string `json:"plugin"`
	// Change is added, changed, renamed or removed.
	Change string `json:"change"`
	// From is the name before a renaming.
	From string `json:"from,omitempty"`
	// How is what was done: started, rules (the process did not notice), configured (in place), replaced (by a new process) or stopped.
	How string `json:"how"`
	// Error says why the change did not come about; the plugin then goes on as it was, if it ran. Empty: it did.
	Error string `json:"error,omitempty"`
}

// errSuperseded is what became of a change that another one overtook.
var errSuperseded = errors.New("it was changed again meanwhile")

// ErrNotReloadable is returned by Reload for a supervisor whose configuration came from no file.
var ErrNotReloadable = errors.New("the configuration did not come from files")

// reloading is the state of reloads.
type reloading struct {
	mu    sync.Mutex // held during a reload: one after the other
	ended bool       // the supervisor stops: nothing is started any more

	stale sync.Mutex
	why   string // the configuration file is broken, and the one in force is older
}

func (r *reloading) broken() string {
	r.stale.Lock()
	defer r.stale.Unlock()
	return r.why
}

func (r *reloading) setBroken(why string) {
	r.stale.Lock()
	defer r.stale.Unlock()
	r.why = why
}

// Reload reads the configuration again and applies what changed, between two events and without touching what did not. It returns when the plugins that changed are in service or cannot be, at
// most for a minute. Of a broken manifest the last good version stays in force; with a broken configuration file nothing changes. cause says who asked, for the record. An error is
// ErrNotReloadable or that of ctx; mistakes in the configuration are in the report. Safe for concurrent use.
func (s *Supervisor) Reload(ctx context.Context, cause string) (ReloadReport, error) {
	return s.reload(ctx, cause, true)
}

// ReloadBy is Reload for an operator, and a manual action: it is recorded with who asked, whatever comes of it.
func (s *Supervisor) ReloadBy(ctx context.Context, uid uint32) (ReloadReport, error) {
	s.emit(ManualAction{Action: manualReload, UID: uid})
	s.noteManual("", manualReload, &uid, 0)
	return s.reload(ctx, fmt.Sprintf("uid %d", uid), true)
}

// manualReload is how a reload that an operator asked for is recorded.
const manualReload = "reload"

// ReloadChanged is Reload if the files differ from what is in force. It reports false if they do not, and then it leaves no trace.
func (s *Supervisor) ReloadChanged(ctx context.Context, cause string) (bool, error) {
	r, err := s.reload(ctx, cause, false)
	return r.Result != "", err
}

func (s *Supervisor) reload(ctx context.Context, cause string, always bool) (ReloadReport, error) {
	if s.opts.Source == nil {
		return ReloadReport{}, ErrNotReloadable
	}
	defer s.opts.Computing()()
	s.reloads.mu.Lock()
	if s.reloads.ended {
		s.reloads.mu.Unlock()
		return ReloadReport{}, errors.New("the supervisor is stopping")
	}
	old := s.plan()
	cfg, err := policy.Load(s.loadOptions(old))
	if !always && s.sameAs(old, cfg, err) {
		s.reloads.mu.Unlock()
		return ReloadReport{}, nil
	}
	var report ReloadReport
	var waits []waiting
	if err != nil {
		report = ReloadReport{Result: reloadFailure, Hash: old.config.Hash, Unchanged: len(old.hosts), Changes: []PluginChange{}}
		report.Problems, report.MoreProblems = listed(errorLines(err))
		s.reloads.setBroken(report.Problems[0])
	} else {
		report, waits = s.apply(old, cfg) //nolint:contextcheck // what it waits for has the bound of the shutdown
		s.reloads.setBroken("")
	}
	s.reloads.mu.Unlock()
	if err := s.await(ctx, &report, waits); err != nil {
		return report, err
	}
	if report.Result == "" {
		report.Result = reloadSuccess
		failed := slices.ContainsFunc(report.Changes, func(c PluginChange) bool { return c.Error != "" })
		if failed || len(report.Problems) > 0 {
			report.Result = reloadPartial
		}
	}
	s.metrics.reloaded(report.Result, time.Now())
	s.emit(Reloaded{Cause: cause, Report: report})
	return report, nil
}

// Config returns the configuration in force. Safe for concurrent use.
func (s *Supervisor) Config() *policy.Config { return s.plan().config }

// sameAs reports whether what was read is what is in force, or broken in the same way.
func (s *Supervisor) sameAs(old *plan, cfg *policy.Config, err error) bool {
	why := s.reloads.broken()
	if err != nil {
		return why == errorLines(err)[0]
	}
	return why == "" && cfg.Hash == old.config.Hash && reflect.DeepEqual(errorTexts(cfg.Problems), errorTexts(old.config.Problems))
}

// loadOptions are those of the start, with what runs now as the last good versions.
func (s *Supervisor) loadOptions(old *plan) policy.LoadOptions {
	o := *s.opts.Source
	o.Supervisor, o.LastGood = "", nil
	for _, h := range old.hosts {
		g := h.policy().Good()
		g.Hosted = true
		o.LastGood = append(o.LastGood, g)
	}
	return o
}

func errorLines(err error) []string {
	if problems, ok := errors.AsType[policy.Problems](err); ok {
		if lines := errorTexts(problems); len(lines) > 0 {
			return lines
		}
	}
	return []string{oneLine(err.Error())}
}

func errorTexts(problems policy.Problems) []string {
	var out []string
	for _, p := range problems.Errors() {
		out = append(out, p.Error())
	}
	return out
}

// waiting is a change that is under way.
type waiting struct {
	change int // its place in the report
	done   <-chan error
	h      *host
}

// await fills in what became of the changes that were under way.
func (s *Supervisor) await(ctx context.Context, report *ReloadReport, waits []waiting) error {
	limit := time.NewTimer(reloadLimit)
	defer limit.Stop()
	for _, w := range waits {
		c := &report.Changes[w.change]
		select {
		case err := <-w.done:
			if err != nil {
				c.Error = err.Error()
			}
			if c.How == changeConfig.String() && w.h.beside.Load() { // it was to be configured in place
				c.How = changeProcess.String()
			}
		case <-ctx.Done():
			return fmt.Errorf("reload: waiting for plugin %q: %w", c.Plugin, ctx.Err())
		case <-s.stopCtx.Done():
			return errors.New("reload: the supervisor is stopping")
		case <-limit.C:
			c.Error = "not in service after " + reloadLimit.String() + "; it is still tried"
			limit.Reset(0)
		}
	}
	return nil
}

// needRestart lists the settings that differ and are read at the start only.
func needRestart(a, b policy.SupervisorSpec) []string {
	var out []string
	for name, pair := range map[string][2]any{
		"runtime": {a.Runtime, b.Runtime}, "runDir": {a.RunDir, b.RunDir}, "stateDir": {a.StateDir, b.StateDir}, "metrics": {a.Metrics, b.Metrics},
		"admin": {a.Admin, b.Admin}, "audit": {a.Audit, b.Audit}, "tracing": {a.Tracing, b.Tracing},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			out = append(out, "spec."+name)
		}
	}
	slices.Sort(out)
	return out
}

// changeOf compares two versions of a plugin.
func changeOf(was, is *policy.Plugin) (how change) {
	switch {
	case was.Team != is.Team:
		return changeWhole
	case !policy.SameProcess(was, is):
		return changeProcess
	case was.ConfigData() != is.ConfigData() || was.Events() != is.Events():
		return changeConfig
	case !reflect.DeepEqual(was.Spec, is.Spec) || was.Contact != is.Contact:
		return changeRules
	}
	return changeNone
}

// change is what differs between two versions of a plugin: the least that has to be done about it. It is a closed set.
type change uint8

const (
	changeNone    change = iota
	changeRules          // what only we need to know
	changeConfig         // what the plugin is told in Configure
	changeProcess        // what its process is started with
	changeWhole          // its owner: nothing of the old one stays
)

// String returns how the report names what is done.
func (c change) String() string {
	switch c {
	case changeNone:
		return "nothing"
	case changeRules:
		return "rules"
	case changeConfig:
		return "configured"
	case changeProcess, changeWhole:
		return "replaced"
	}
	return "unknown"
}

// sameButName reports whether a plugin is another one under a new name.
func sameButName(a, b *policy.Plugin) bool {
	return a.Team == b.Team && a.ConfigData() == b.ConfigData() && reflect.DeepEqual(a.Spec, b.Spec)
}

// endUpdate tells who waits for the plugin's change what became of it. It runs on the loop.
func (h *host) endUpdate(err error) {
	if h.update != nil {
		h.update <- err
		h.update = nil
	}
}

// changed notices on the loop that a change by a new process came about, or cannot.
func (h *host) changed(to plugin.Phase) {
	if h.machine.Warming() {
		return // the successor ends it
	}
	switch to {
	case plugin.Ready, plugin.Disabled:
		h.endUpdate(nil)
	case plugin.Syncing:
		if !h.machine.RuntimeKnown() { // it waits for the runtime, as all plugins do
			h.endUpdate(nil)
		}
	case plugin.Backoff, plugin.CrashLoop:
		h.endUpdate(errors.New(oneLine(h.lastErr)))
	case plugin.Stopped:
		h.endUpdate(errors.New("it was stopped meanwhile"))
	case plugin.Starting, plugin.Draining:
	}
}
