package policy

import (
	"slices"
	"strings"
)

// didYouMean is the remedy for an unknown word: the nearest known one, else all of them.
func didYouMean(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	if best := nearest(word, known); best != "" {
		return "did you mean " + best + "?"
	}
	if len(known) == 1 {
		return "write " + known[0]
	}
	sorted := slices.Clone(known)
	slices.Sort(sorted)
	return "known are " + strings.Join(sorted, ", ")
}

// nearest returns the known word that differs least from the word, if the difference looks like
// a slip: at most a third of the letters, upper and lower case being the same.
func nearest(word string, known []string) string {
	if len(word) > 64 {
		return "" // a pasted paragraph is nobody's slip
	}
	best, bestDistance := "", max(len(word)/3, 1)+1
	for _, k := range known {
		d := distance(strings.ToLower(word), strings.ToLower(k))
		if d < bestDistance || (d == bestDistance && best != "" && k < best) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that make b of a.
func distance(a, b string) int {
	before, last, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(last[j]+1, current[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, last, current = last, current, before
	}
	return last[len(b)]
}
