package plugin_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

const (
	worlds       = 60  // each about 2,500 steps
	disturbances = 150 // of each
)

// firstSeed is random, and printed by whoever uses it; PLUGIN_SEED repeats a run.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("PLUGIN_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("PLUGIN_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("PLUGIN_SEED=%d", seed)
	return seed
}

// Whatever happens around a plugin: the promises of the package comment hold at each step, and when all faults are over it serves and knows the truth.
func TestWhateverHappensThePromisesHoldAndThePluginComesBackKnowingTheTruth(t *testing.T) {
	t.Parallel()
	first := firstSeed(t)
	steps, swaps, farewells := 0, 0, 0
	for i := range uint64(worlds) {
		w := newWorld(first + i)
		if err := w.live(disturbances); err != nil {
			t.Fatalf("PLUGIN_SEED=%d, step %d: %v", first+i, w.steps, err)
		}
		steps, swaps, farewells = steps+w.steps, swaps+w.swaps, farewells+w.parting
	}
	t.Logf("%d steps, %d successors took over, %d calls about what vanished", steps, swaps, farewells)
	if steps < 100*worlds || swaps < worlds || farewells < worlds {
		t.Errorf("%d steps, %d successors and %d calls about what vanished in %d worlds: nothing happens in them", steps, swaps, farewells, worlds)
	}
}
