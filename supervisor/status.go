package supervisor

import (
	"cmp"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// Status is what there is to see of a running supervisor. It is what `status -o json` prints.
type Status struct {
	Version string         `json:"version"`
	Started time.Time      `json:"started"`
	Runtime RuntimeStatus  `json:"runtime"`
	Bypass  *time.Time     `json:"bypassUntil,omitempty"`
	Config  ConfigStatus   `json:"config"`
	Pods    int            `json:"pods"`
	Ctrs    int            `json:"containers"`
	Plugins []PluginStatus `json:"plugins"`
	// MoreInvalid is how many manifests cannot be used beyond the first hundred, which are among Plugins.
	MoreInvalid int `json:"moreInvalid,omitempty"`
	// Refused counts the requests of the runtime that failed for a plugin's sake since the supervisor was started, RefusedUnhosted those of them that name a plugin which is required and not
	// hosted, or that have a wrong annotation about required plugins. The kubelet tries again, so one container may count often.
	Refused           int       `json:"refused"`
	RefusedUnhosted   int       `json:"refusedUnhosted,omitempty"`
	RefusedUnhostedAt time.Time `json:"refusedUnhostedAt,omitzero"` // the last of them
	Warnings          []string  `json:"warnings,omitempty"`
}

// RuntimeStatus is the connection to the runtime.
type RuntimeStatus struct {
	Connected      bool      `json:"connected"`
	Since          time.Time `json:"since"`
	Reason         string    `json:"reason,omitempty"` // why not: taken, missing, permission, refused, rejected, timeout, lost
	Error          string    `json:"error,omitempty"`
	Hint           string    `json:"hint,omitempty"`
	Sessions       uint64    `json:"sessions"`
	Name           string    `json:"name,omitempty"`
	Version        string    `json:"version,omitempty"`
	NRIVersion     string    `json:"nriVersion,omitempty"`
	RequestTimeout string    `json:"requestTimeout,omitempty"`
	Socket         string    `json:"socket"`
}

// ConfigStatus is the configuration in force.
type ConfigStatus struct {
	Hash     string   `json:"hash"`
	Problems []string `json:"problems,omitempty"`
	// MoreProblems is how many there are beyond the first hundred, which Problems lists.
	MoreProblems int `json:"moreProblems,omitempty"`
}

// PluginStatus is one plugin.
type PluginStatus struct {
	Name     string      `json:"name"`
	Team     string      `json:"team"`
	Contact  string      `json:"contact,omitempty"`
	Index    string      `json:"index"`
	State    string      `json:"state"`
	PID      int         `json:"pid,omitempty"`
	Since    time.Time   `json:"since"`
	Restarts int         `json:"restarts"`
	Identity *Identity   `json:"identity,omitempty"`
	Breaker  BreakerView `json:"breaker"`
	Missed   int         `json:"missed"`
	MissedBy []ReasonSum `json:"missedBy,omitempty"` // by reason
	// MissedInService are those of MissedBy that it missed since it is in service, and not because it was not asked then; nil for a plugin that is not in service.
	MissedInService []ReasonSum `json:"missedInService,omitempty"`
	// Conflicts are the plugins for whose sake its replies were dropped since the supervisor was started.
	Conflicts    []Rival      `json:"conflicts,omitempty"`
	Refused      int          `json:"refused"` // requests that failed for its sake since the supervisor was started
	RefusedBy    []ReasonSum  `json:"refusedBy,omitempty"`
	RefusedAt    time.Time    `json:"refusedAt,omitzero"` // the last of them
	LaneSeconds  float64      `json:"laneSeconds"`
	Quarantined  []string     `json:"quarantinedPods,omitempty"`
	LastError    string       `json:"lastError,omitempty"`
	Exits        []ExitRecord `json:"exits,omitempty"`
	Problems     []string     `json:"problems,omitempty"` // of an invalid manifest
	Stale        string       `json:"stale,omitempty"`    // why what runs is older than the manifest; empty: it is not
	ManifestFile string       `json:"file,omitempty"`
	// NextStart is when it is started again, in state backoff or crash_loop; zero in another.
	NextStart time.Time `json:"nextStart,omitzero"`
	// Awaited is the socket of a plugin that attaches to which nobody is connected; empty for another.
	Awaited     string `json:"awaitedAt,omitempty"`
	FailsClosed bool   `json:"failsClosed,omitempty"` // containers are refused while its work is missing: failurePolicy Fail, or requiredPlugins
}

// ReasonSum counts by reason.
type ReasonSum struct {
	Reason string    `json:"reason"`
	Count  int       `json:"count"`
	At     time.Time `json:"at,omitzero"` // the last time; known of refusals only
	// First is the first time that it came about since the plugin is in service; of refusals, and not after ten minutes without one. Zero where that is not known: in other lists than
	// MissedInService and RefusedBy, and of a plugin that came into service later.
	First time.Time `json:"first,omitzero"`
}

func sortReasons(list []ReasonSum) {
	slices.SortFunc(list, func(a, b ReasonSum) int { return cmp.Compare(a.Reason, b.Reason) })
}

// hostView is what the loop of a plugin publishes for readers.
type hostView struct {
	state    string
	since    time.Time
	pid      int
	restarts int
	identity *Identity
	exits    []ExitRecord
	lastErr  string
	inPlace  bool     // it has health checks
	measured Measured // the incarnation in service or on the way there; nil: there is none that says
}

// publish makes the loop's state visible to other goroutines.
func (h *host) publish() {
	v := &hostView{state: h.machine.Phase().String(), since: time.Now(), pid: h.pid(), restarts: h.restarts, exits: h.exits, lastErr: h.lastErr}
	if old := h.view.Load(); old != nil && old.state == v.state {
		v.since = old.since
	} else if v.state == plugin.Ready.String() {
		h.refusals.renew()
	}
	if r := h.run(); r != nil && r.inst != nil {
		id := r.inst.Identity()
		v.identity = &id
		v.measured, _ = r.inst.(Measured)
		v.inPlace = r.inst.InPlace()
	}
	h.view.Store(v)
}

// Status returns the state of everything. Safe for concurrent use.
func (s *Supervisor) Status() Status {
	info, now := s.runtimeInfo(), s.plan()
	s.mu.Lock()
	c, sessions := s.conn, s.sessions
	s.mu.Unlock()
	out := Status{
		Version: s.opts.Version, Started: s.started,
		Runtime: RuntimeStatus{
			Connected: c.connected, Since: c.since, Reason: c.reason, Error: c.err, Hint: c.hint, Sessions: sessions,
			Name: info.Name, Version: info.Version, NRIVersion: info.NRIVersion, Socket: s.opts.Config.Supervisor.Runtime.Socket,
		},
		Config: ConfigStatus{Hash: now.config.Hash},
	}
	if info.RequestTimeout > 0 {
		out.Runtime.RequestTimeout = info.RequestTimeout.String()
	}
	if t := s.bypassUntil.Load(); t != 0 {
		until := time.Unix(0, t)
		out.Bypass = &until
	}
	problems, more := listed(now.config.Problems)
	out.Config.MoreProblems = more
	for _, p := range problems {
		out.Config.Problems = append(out.Config.Problems, p.Error())
	}
	out.Pods, out.Ctrs = s.store.Len()
	counts := s.store.MissedCounts()
	for _, h := range now.hosts {
		ps := h.status()
		for k, n := range counts {
			if k.Plugin == ps.Name {
				ps.Missed += n
				ps.MissedBy = append(ps.MissedBy, ReasonSum{Reason: k.Reason, Count: n})
			}
		}
		ps.Stale = h.stale(now.config)
		ps.FailsClosed = h.policy().Fails(api.Event_CREATE_CONTAINER) || slices.Contains(now.config.Supervisor.RequiredPlugins, h.name)
		sortReasons(ps.MissedBy)
		out.Refused += ps.Refused
		out.Plugins = append(out.Plugins, ps)
	}
	s.missedInService(out.Plugins)
	invalid, more := listed(now.invalid())
	out.MoreInvalid = more
	for _, p := range invalid {
		ps := s.invalidStatus(p, now)
		ps.FailsClosed = slices.Contains(now.config.Supervisor.RequiredPlugins, p.Name)
		out.Plugins = append(out.Plugins, ps)
	}
	out.RefusedUnhosted, _, out.RefusedUnhostedAt = s.unhosted.sum()
	out.Refused += out.RefusedUnhosted
	return out
}

func (h *host) status() PluginStatus {
	v, g := h.view.Load(), h.guard.Snapshot()
	ps := PluginStatus{
		Name: h.name, Team: h.policy().Team, Contact: h.policy().Contact, Index: h.policy().Index, State: v.state, PID: v.pid, Since: v.since,
		Restarts: v.restarts, Identity: v.identity, LaneSeconds: h.guard.LaneSeconds(), LastError: v.lastErr, Exits: v.exits, ManifestFile: h.policy().File,
		Breaker: BreakerView{State: g.State.String(), Since: g.Since},
	}
	if g.Since.IsZero() {
		ps.Breaker.Since = h.sup.started
	} else {
		ps.Breaker.Cause = g.Cause.String()
	}
	ps.Refused, ps.RefusedBy, ps.RefusedAt = h.refusals.sum()
	ps.Conflicts = h.rivals.all()
	if at := h.nextStart.Load(); at != 0 && (v.state == plugin.Backoff.String() || v.state == plugin.CrashLoop.String()) {
		ps.NextStart = time.Unix(0, at)
	}
	if a := h.policy().Spec.Attach; a != nil && v.state == plugin.Starting.String() {
		ps.Awaited = a.Socket
	}
	ps.Breaker.WaitsFor, ps.Breaker.Opening = waitsFor(g, v.inPlace), h.failures.latest()
	if !g.OpenUntil.IsZero() {
		ps.Breaker.OpenUntil = &g.OpenUntil
	}
	for _, q := range g.Quarantined {
		ps.Quarantined = append(ps.Quarantined, q.Pod)
	}
	return ps
}

// stale says why what runs is older than the manifest; empty: it is not.
func (h *host) stale(cfg *policy.Config) string {
	if h.policy().LastGood {
		why := "its manifest is broken"
		for _, p := range cfg.Invalid {
			if bad := p.Problems.Errors(); len(bad) > 0 && (p.Name == h.name || p.Name == "" && p.File == h.policy().File) {
				why = bad[0].Error()
			}
		}
		return why
	}
	if h.stuck.Load() {
		return cmp.Or(h.view.Load().lastErr, "the change of its manifest did not come into service")
	}
	return ""
}

func (*Supervisor) invalidStatus(p policy.InvalidPlugin, now *plan) PluginStatus {
	ps := PluginStatus{
		Name: p.Name, Team: p.Team, Contact: now.config.Supervisor.Teams[p.Team].Contact, State: stateInvalid, Since: now.broken[brokenKey(p)], ManifestFile: p.File,
	}
	for _, pr := range p.Problems {
		ps.Problems = append(ps.Problems, pr.Error())
	}
	if len(ps.Problems) > 0 {
		ps.LastError = ps.Problems[0]
	}
	return ps
}

// MissedWork is one plugin's work that is missing from one living container.
type MissedWork struct {
	Namespace   string    `json:"namespace"`
	Pod         string    `json:"pod"`
	Container   string    `json:"container"`
	ContainerID string    `json:"containerId"`
	Plugin      string    `json:"plugin"`
	Team        string    `json:"team"`
	Reason      string    `json:"reason"`
	At          time.Time `json:"at"`
}

// Missed lists the living containers that run without a plugin's work. Safe for concurrent use.
func (s *Supervisor) Missed() []MissedWork {
	defer s.opts.Computing()()
	var out []MissedWork
	now := s.plan()
	for _, m := range s.store.Missed() {
		h := now.byName[m.Plugin]
		if h == nil {
			continue
		}
		out = append(out, MissedWork{
			Namespace: m.Namespace, Pod: m.PodName, Container: m.Container, ContainerID: m.Ref.Container, Plugin: m.Plugin, Team: h.policy().Team,
			Reason: m.Reason, At: m.At,
		})
	}
	return out
}

// Ready reports whether the supervisor is registered with a runtime, and if not, why and what to do.
func (s *Supervisor) Ready() (ok bool, why string) {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	why = s.reloads.broken()
	switch {
	case c.connected && why != "":
		return false, "the last good configuration is used, because the one on disk is broken: " + why
	case c.connected:
		return true, ""
	case c.reason == "":
		return false, "not connected to the runtime yet"
	case c.hint == "":
		return false, "runtime " + c.reason + ": " + c.err
	default:
		return false, "runtime " + c.reason + ": " + c.err + "; " + c.hint
	}
}

func (s *Supervisor) runtimeInfo() RuntimeInfo {
	if i := s.runtime.Load(); i != nil {
		return *i
	}
	return RuntimeInfo{}
}
