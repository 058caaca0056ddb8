package breaker

import "time"

// windowSteps is in how many steps a window forgets; it is thus between 9/10 and
// the whole of its length long.
const windowSteps = 10

// tally is a number of calls by verdict, and how many of both kinds were slow.
type tally struct {
	good, bad, slow uint32
}

func (t tally) counted() uint32 { return t.good + t.bad }

// window counts calls of the recent past. Unlike gobreaker's interval it leaves
// consecutive failures alone, and reading it changes nothing.
type window struct {
	origin  time.Time
	step    time.Duration
	tallies [windowSteps]tally
	numbers [windowSteps]int64 // which step since origin each tally is about
}

func newWindow(length time.Duration, now time.Time) window {
	return window{origin: now, step: max(length/windowSteps, 1)}
}

func (w *window) number(now time.Time) int64 { return int64(now.Sub(w.origin) / w.step) }

func (w *window) add(now time.Time, t tally) {
	n := w.number(now)
	i := n % windowSteps
	if w.numbers[i] != n {
		w.numbers[i], w.tallies[i] = n, tally{}
	}
	w.tallies[i].good += t.good
	w.tallies[i].bad += t.bad
	w.tallies[i].slow += t.slow
}

func (w *window) sum(now time.Time) tally {
	n := w.number(now)
	var s tally
	for i, t := range w.tallies {
		if n-w.numbers[i] < windowSteps {
			s.good += t.good
			s.bad += t.bad
			s.slow += t.slow
		}
	}
	return s
}

func (w *window) clear() { w.tallies = [windowSteps]tally{} }
