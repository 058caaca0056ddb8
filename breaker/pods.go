package breaker

import (
	"container/list"
	"time"
)

// maxPods bounds how many pods a guard remembers; the one not heard of for the
// longest time goes first. Far above the 110 pods that Kubernetes recommends per
// node, so only a flood of failing pods reaches it.
const maxPods = 4096

// strikeMemory is how much longer than a quarantine a strike is remembered. It
// must bridge the longest gap between two tries of a poison pod: the kubelet's
// backoff (5 min at most) after the plugin's own crash-loop pause (5 min by
// default), with room.
const strikeMemory = 30 * time.Minute

// pods remembers the pods that harmed the plugin. Each has its strikes: hard ones,
// for a crash or a hang, and soft ones, for a failed call. A success of the same
// work forgives soft strikes. It does not forgive hard ones: a pod makes several
// requests, and those before the one that crashes the plugin succeed every time.
type pods struct {
	entries map[string]*list.Element // of *podEntry
	recent  *list.List               // most recent first
}

// podEntry is what the elements of pods.recent hold.
type podEntry struct {
	pod        string
	hard, soft int
	work       string // of the latest soft strike
	counted    bool   // an error of it has counted towards the breaker
	struck     time.Time
	until      time.Time // quarantined; zero = not
}

func newPods() pods {
	return pods{entries: make(map[string]*list.Element), recent: list.New()}
}

// find returns the entry of pod, or nil when there is none or it is too old.
func (p *pods) find(pod string, cfg *Config, now time.Time) *podEntry {
	el, ok := p.entries[pod]
	if !ok {
		return nil
	}
	e := el.Value.(*podEntry)
	if now.Sub(e.struck) >= cfg.QuarantineDuration+strikeMemory && !now.Before(e.until) {
		p.remove(el)
		return nil
	}
	p.recent.MoveToFront(el)
	return e
}

func (p *pods) findOrAdd(pod string, cfg *Config, now time.Time) *podEntry {
	if e := p.find(pod, cfg, now); e != nil {
		return e
	}
	if len(p.entries) >= maxPods {
		p.remove(p.recent.Back())
	}
	e := &podEntry{pod: pod, struck: now}
	p.entries[pod] = p.recent.PushFront(e)
	return e
}

func (p *pods) remove(el *list.Element) *podEntry {
	e := p.recent.Remove(el).(*podEntry)
	delete(p.entries, e.pod)
	return e
}

func (p *pods) quarantined(pod string, cfg *Config, now time.Time) bool {
	if pod == "" {
		return false
	}
	e := p.find(pod, cfg, now)
	return e != nil && now.Before(e.until)
}

// strike notes harm that the call t, or the pod alone when t is nil, did to the
// plugin. One call is at most one strike, and a hard one replaces a soft one: a
// timeout that becomes a hang that becomes an exit is one piece of harm.
func (p *pods) strike(pod string, t *Ticket, hard bool, cfg *Config, now time.Time) {
	if pod == "" || (t != nil && (t.struck == struckHard || (t.struck == struckSoft && !hard))) {
		return
	}
	e := p.findOrAdd(pod, cfg, now)
	if hard {
		if t != nil && t.struck == struckSoft && e.soft > 0 {
			e.soft--
		}
		e.hard++
	} else {
		e.soft++
	}
	if t != nil {
		t.struck = struckSoft
		if hard {
			t.struck = struckHard
		} else {
			e.work = t.call.Work
		}
	}
	e.struck = now
	// Strikes outlive the quarantine, so after it one more is enough.
	if cfg.QuarantineAfter > 0 && e.hard+e.soft >= cfg.QuarantineAfter {
		e.until = now.Add(cfg.QuarantineDuration)
	}
}

// firstError reports whether an error of pod is the first since its last success,
// and from now on it is not.
func (p *pods) firstError(pod string, cfg *Config, now time.Time) bool {
	if pod == "" {
		return true
	}
	e := p.findOrAdd(pod, cfg, now)
	first := !e.counted
	e.counted = true
	return first
}

// forgive forgets what pod did at work, because there it succeeded.
func (p *pods) forgive(pod, work string, cfg *Config, now time.Time) {
	e := p.find(pod, cfg, now)
	if e == nil || e.work != work {
		return
	}
	e.soft, e.counted = 0, false
	if e.hard == 0 && !now.Before(e.until) {
		p.remove(p.entries[pod])
	}
}

// clear forgets pod, or every pod when pod is "", and returns how many of them
// were quarantined.
func (p *pods) clear(pod string, now time.Time) int {
	if pod == "" {
		n := len(p.list(now))
		*p = newPods()
		return n
	}
	el, ok := p.entries[pod]
	if !ok {
		return 0
	}
	e := p.remove(el)
	if now.Before(e.until) {
		return 1
	}
	return 0
}

// list returns the quarantined pods, most recently met first.
func (p *pods) list(now time.Time) []QuarantinedPod {
	var out []QuarantinedPod
	for el := p.recent.Front(); el != nil; el = el.Next() {
		e := el.Value.(*podEntry)
		if now.Before(e.until) {
			out = append(out, QuarantinedPod{Pod: e.pod, Until: e.until, Strikes: e.hard + e.soft})
		}
	}
	return out
}
