package store_test

import (
	"testing"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

func TestOnlyLivingContainersCountAsSelected(t *testing.T) {
	t.Parallel()
	s := made(t, "a", "b", "c")
	for _, id := range []string{"a", "b"} {
		s.SetPins(store.Ref{Pod: "p", Container: id}, []store.Pin{{Plugin: "gpu", Selected: true}, {Plugin: "net", MatchErr: true}})
	}
	same(t, "counts", map[string]int{"gpu": 2}, s.SelectedCounts())
	s.RemoveContainer(store.Ref{Pod: "p", Container: "a"})
	same(t, "counts after a removal", map[string]int{"gpu": 1}, s.SelectedCounts())
}
