package breaker

import "time"

// lane is a token bucket of waiting time: it fills with LaneRatio seconds per
// second up to LaneBurst, and what the plugin keeps events waiting is taken out.
// It may go below zero, since a wait is known only when it is over; the debt is
// paid before the next call, so over time the ratio holds exactly.
type lane struct {
	total  time.Duration
	tokens time.Duration // at the time at
	at     time.Time
}

// maxCharge bounds one wait, so that no caller's mistake overflows the sums. No
// event waits that long: the runtime gives up after seconds.
const maxCharge = 24 * time.Hour

func newLane(cfg Config, now time.Time) lane {
	return lane{tokens: cfg.LaneBurst, at: now}
}

// level returns the tokens at now. It changes nothing.
func (l *lane) level(cfg *Config, now time.Time) time.Duration {
	refill := time.Duration(float64(now.Sub(l.at)) * cfg.LaneRatio)
	return min(l.tokens+refill, cfg.LaneBurst)
}

func (l *lane) charge(cfg *Config, d time.Duration, now time.Time) {
	if d <= 0 {
		return
	}
	d = min(d, maxCharge)
	l.total += d
	if cfg.LaneRatio > 0 {
		l.tokens, l.at = l.level(cfg, now)-d, now
	}
}

func (l *lane) empty(cfg *Config, now time.Time) bool {
	return cfg.LaneRatio > 0 && l.level(cfg, now) <= 0
}

// reconfigure changes the rules from old to cfg. A lane share that is switched on
// starts full; one that was on keeps its level.
func (l *lane) reconfigure(old, cfg *Config, now time.Time) {
	level := cfg.LaneBurst
	if old.LaneRatio > 0 && cfg.LaneRatio > 0 {
		level = min(level, l.level(old, now))
	}
	l.tokens, l.at = level, now
}

// Charge books d during which this plugin kept an event waiting. Call it for
// every event that waited, whatever the outcome; it feeds both LaneSeconds and
// the lane share, and the one that the plugin has with others. A d that is not positive does nothing.
func (g *Guard) Charge(d time.Duration) {
	now := g.lock()
	defer g.unlock()
	g.lane.charge(&g.cfg, d, now)
	g.shared.Load().charge(d, now)
}

// Excuse books d during which an event waited for what is not the plugin's doing: it shows in LaneSeconds and costs no share. A d that is not positive does nothing.
func (g *Guard) Excuse(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lane.total += min(max(d, 0), maxCharge)
}

// LaneSeconds returns the total of Charge and Excuse, in seconds. It never decreases.
func (g *Guard) LaneSeconds() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lane.total.Seconds()
}
