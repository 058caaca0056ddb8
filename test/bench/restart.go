package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// manyContainers is how many there are on a node that is larger than any that Kubernetes supports.
const manyContainers = 10000

// restart is the bar for a supervisor that comes to a node full of containers: against one stock plugin that does nothing, which gets the same state of the same runtime. The runtime's deadline is
// lifted meanwhile, since on a busy machine NRI's own share of it, the same for both, may be more than all of it.
func (b *bench) restart(context.Context) ([]bar, error) {
	return []bar{{
		name: "restart-10000", text: "Synchronize of 10,000 containers, with 10 plugins: times the duration of one stock plugin that does nothing", bound: 1.5,
		measure: func(ctx context.Context, rounds int) ([]float64, []timing, error) {
			adaptation.SetPluginRequestTimeout(patience)
			defer adaptation.SetPluginRequestTimeout(api.DefaultPluginRequestTimeout)
			const share = 3 // of the rounds: each takes seconds
			ours, stock := setup{plugins: 10, containers: manyContainers}, setup{plugins: 1, containers: manyContainers}
			t := []timing{{Name: "stock 1"}, {Name: "supervisor 10"}}
			for round := range max(1, rounds/share) {
				for turn := range 2 {
					at := (turn + round) % 2
					ms, err := b.registrations(ctx, []setup{stock, ours}[at], at == 1)
					if err != nil {
						return nil, nil, err
					}
					t[at].rounds = append(t[at].rounds, []time.Duration{time.Duration(ms * float64(time.Millisecond))})
				}
			}
			t[0].finish()
			t[1].finish()
			return ratios(t[1].rounds.medians(), t[0].rounds.medians()), t, nil
		},
	}}, nil
}

// mostSynchronized finds out at how many containers the runtime gives a plugin up: the supervisor with 10 plugins, and one stock plugin that does nothing, each a few times with more and more.
func (b *bench) mostSynchronized(ctx context.Context) error {
	const step, most, times = 5000, 40000, 3
	for _, hosted := range []bool{true, false} {
		name, s := "one stock plugin", setup{plugins: 1}
		if hosted {
			name, s = "the supervisor", setup{plugins: 10}
		}
		good := 0
		for n := manyContainers; n <= most; n += step {
			s.containers = n
			took, late := math.Inf(1), 0
			for range times {
				ms, err := b.registrations(ctx, s, hosted)
				var list []float64
				if list, late, err = attempt(nil, late, ms, err); err != nil {
					return err
				}
				for _, ms := range list {
					took = min(took, ms)
				}
			}
			if late > times/2 {
				break
			}
			good = n
			fmt.Fprintf(b.out, "  %s: %d containers in %.0f ms at best\n", name, n, took)
		}
		b.fact("Synchronize inside the runtime's 2 s, most containers, "+name, float64(good), "containers", "")
	}
	return nil
}
