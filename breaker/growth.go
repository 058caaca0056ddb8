package breaker

import "time"

// jitterShare is by how much an open time is made shorter or longer at random
// (design, the guard: "20 % jitter").
const jitterShare = 0.2

// growth is the open time that doubles at each opening. The zero value starts
// from the beginning.
type growth struct {
	openings int // since the beginning, at most until the maximum is reached
}

// next returns the open time of one more opening: OpenDuration, doubled for each
// opening before, at most MaxOpenDuration, ±20 % by draw (0 to 1), and again at
// most MaxOpenDuration.
func (gr *growth) next(cfg *Config, draw float64) time.Duration {
	d := cfg.OpenDuration
	for range gr.openings {
		if d > cfg.MaxOpenDuration/2 {
			d = cfg.MaxOpenDuration
			break
		}
		d *= 2
	}
	if d < cfg.MaxOpenDuration {
		gr.openings++
	}
	if !(draw >= 0) { // also NaN
		draw = 0
	}
	factor := 1 - jitterShare + 2*jitterShare*min(draw, 1)
	return min(time.Duration(float64(d)*factor), cfg.MaxOpenDuration)
}
