package breaker

import "strings"

// series counts the bad calls in a row for each kind of call, which is the event. A plugin that answers one event and never another would otherwise never open its breaker, and
// cost each pod a timeout for ever. There are as many kinds as events, so it is bounded.
type series map[string]uint32

// kindOf is the event of a call's Work: what is before the first slash.
func kindOf(work string) string {
	kind, _, _ := strings.Cut(work, "/")
	return kind
}

// add takes a call in: a bad one lengthens the series of its kind, a good one ends it.
func (s series) add(kind string, t tally) {
	if t.good > 0 {
		delete(s, kind)
		return
	}
	s[kind] += t.bad
}

// longest returns the length of the longest series.
func (s series) longest() uint32 {
	var n uint32
	for _, v := range s {
		n = max(n, v)
	}
	return n
}
