package breaker

import (
	"sync"
	"time"
)

// SharedLane is a share of the node's time that several plugins have together, beside
// the one that each may have for itself: see [Guard.ShareLane]. Make one with
// [NewSharedLane]; nil is a share without a bound. All methods are safe for concurrent use. Of plugins that are
// called at once each one's wait counts.
type SharedLane struct {
	mu   sync.Mutex
	cfg  Config // of it, the lane's part
	lane lane
}

// NewSharedLane returns a full bucket that fills with ratio seconds per second up to burst. A ratio of 0 bounds nothing, a burst of 0 is the default.
func NewSharedLane(ratio float64, burst time.Duration) *SharedLane {
	cfg := Config{LaneRatio: ratio, LaneBurst: burst}.normalized()
	return &SharedLane{cfg: cfg, lane: newLane(cfg, time.Now())}
}

// Reconfigure changes ratio and burst; what was used up stays used up.
func (l *SharedLane) Reconfigure(ratio float64, burst time.Duration) {
	cfg := Config{LaneRatio: ratio, LaneBurst: burst}.normalized()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lane.reconfigure(&l.cfg, &cfg, time.Now())
	l.cfg = cfg
}

// ShareLane makes the guard's plugin one of those that have the share together; nil takes it out.
func (g *Guard) ShareLane(l *SharedLane) { g.shared.Store(l) }

func (l *SharedLane) empty(now time.Time) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lane.empty(&l.cfg, now)
}

func (l *SharedLane) charge(d time.Duration, now time.Time) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lane.charge(&l.cfg, d, now)
}
