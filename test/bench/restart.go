package main

import (
	"context"
	"fmt"
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

// mostSynchronized finds out at how many containers the runtime gives a plugin up: the supervisor with 10 plugins, and one stock plugin that does nothing, in turns, with more and more.
func (b *bench) mostSynchronized(ctx context.Context) error {
	const step, most, times = 10000, 30000, 3
	setups := []setup{{plugins: 1}, {plugins: 10}}
	names := []string{"one stock plugin", "the supervisor"}
	good := make([]int, len(setups))
	for n := manyContainers; n <= most; n += step {
		var took [2][]float64
		for turn := range 2 * times {
			at := turn % 2
			if good[at] < n-step && n > manyContainers {
				continue // it was given up with fewer
			}
			setups[at].containers = n
			ms, err := b.registrations(ctx, setups[at], at == 1)
			if took[at], _, err = attempt(took[at], 0, ms, err); err != nil {
				return err
			}
		}
		for at := range took {
			if len(took[at]) > times/2 {
				good[at] = n
				fmt.Fprintf(b.out, "  %s: %d containers in %.0f ms, %d of %d times\n", names[at], n, summarize(took[at]).Median, len(took[at]), times)
			}
		}
		if max(good[0], good[1]) < n {
			break
		}
	}
	for at, n := range good {
		b.fact("Synchronize inside the runtime's 2 s, most containers, "+names[at], float64(n), "containers", "")
	}
	return nil
}
