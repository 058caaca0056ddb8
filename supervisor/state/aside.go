package state

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// keepAside is how many files that were set aside are kept, the newest. One is
// enough to look into; without a bound a failing disk would fill up with them.
const keepAside = 4

// setAside renames the file to state.db.bad-N, with the lowest number that is
// higher than all there are, and deletes the oldest of too many.
func setAside(dir string) (string, error) {
	bad := badFiles(dir)
	next := 1
	if len(bad) > 0 {
		next = bad[len(bad)-1] + 1
	}
	for len(bad) >= keepAside {
		if err := os.RemoveAll(badPath(dir, bad[0])); err != nil {
			return "", err
		}
		bad = bad[1:]
	}
	to := badPath(dir, next)
	return to, os.Rename(filepath.Join(dir, fileName), to)
}

// badFiles gives the numbers of the files that were set aside, ascending.
func badFiles(dir string) []int {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var numbers []int
	for _, e := range entries {
		if digits, ok := strings.CutPrefix(e.Name(), fileName+".bad-"); ok {
			if n, err := strconv.Atoi(digits); err == nil && n > 0 {
				numbers = append(numbers, n)
			}
		}
	}
	slices.SortFunc(numbers, cmp.Compare[int])
	return numbers
}

func badPath(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.bad-%d", fileName, n))
}
