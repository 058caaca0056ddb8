package breaker

import "time"

// ReservePerPlugin is the time kept back for each selected plugin still to come
// (design, the guard: "each selected plugin still to come has 10 ms reserved").
const ReservePerPlugin = 10 * time.Millisecond

// MinimumShare is what a plugin gets even when the reserves of the others would
// leave it less, as long as that much remains (design, the guard).
const MinimumShare = 20 * time.Millisecond

// Share returns how long the next plugin of a chain may take when remaining is
// left for the event and later selected plugins come after it:
//
//	min(timeout, max(MinimumShare, remaining − later×ReservePerPlugin))
//
// and never more than remaining. It returns zero when nothing remains or when
// timeout is not positive, and never a negative time. A negative later counts
// as none. Pure, and safe for concurrent use.
func Share(remaining, timeout time.Duration, later int) time.Duration {
	if remaining <= 0 || timeout <= 0 {
		return 0
	}
	left := remaining
	if later > 0 {
		left = 0
		// Compared before multiplying, so that no number of plugins overflows.
		if time.Duration(later) < remaining/ReservePerPlugin+1 {
			left = remaining - time.Duration(later)*ReservePerPlugin
		}
	}
	return min(timeout, max(MinimumShare, left), remaining)
}
