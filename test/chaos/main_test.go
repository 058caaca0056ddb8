// Package chaos_test breaks plugins, real processes, behind the supervisor's real binary on NRI's real adaptation, and looks at what the others notice: nothing.
//
// Owns: the table of faults and the promises that hold for each of them. Random choices come from a seed that each test prints; NRI_SUPERVISOR_TEST_SEED repeats one.
//
// Does not own: what a fault does in detail (a plugin called chaos does it, see plugins/chaos), single units.
package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// sideBySide is how many faults are tried at once. Most of their time is waiting: for timeouts, backoffs, and the ten seconds between two synchronizations of one plugin.
// Programs with the race detector need several times the processor that others need.
func sideBySide() string {
	if harness.Race() {
		return "3"
	}
	return "6"
}

// ms is a duration of the sick plugins' world: n milliseconds, or three times as much for programs with the race detector.
func ms(n int) string {
	if harness.Race() {
		n *= 3
	}
	return fmt.Sprintf("%dms", n)
}

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", sideBySide()); err != nil {
			panic(err)
		}
	}
	os.Exit(harness.Main(m))
}
