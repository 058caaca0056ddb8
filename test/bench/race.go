package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// contender is one of those whose time is compared.
type contender struct {
	name string
	do   func(context.Context) (time.Duration, error) // one operation, and how long the part took that counts
	pid  int                                          // of the supervisor; 0: there is none
}

// timing is what came of one contender.
type timing struct {
	Name    string  `json:"name"`
	Samples int     `json:"samples"`
	Median  summary `json:"medianMicroseconds"` // of the medians of the rounds
	P50     float64 `json:"p50Microseconds"`    // of all samples
	P99     float64 `json:"p99Microseconds"`
	Max     float64 `json:"maxMicroseconds"`
	// CPU is the processor time of the runtime and of the supervisor, for each operation with all that belongs to it; that of the plugins is not in it.
	CPU   float64 `json:"runtimeCPUMicroseconds"`
	Extra float64 `json:"supervisorCPUMicroseconds,omitempty"`

	rounds     rounds
	cpu, extra time.Duration
}

// race lets the contenders take turns: in each round each does its operations, in an order that turns around. What disturbs the machine for longer than a round disturbs all of them.
func race(ctx context.Context, nRounds, ops int, contenders ...contender) ([]timing, error) {
	out := make([]timing, len(contenders))
	order := make([]int, len(contenders))
	for i, c := range contenders {
		out[i].Name, order[i] = c.name, i
		for range max(1, min(ops, 10)) { // connections, caches and pools are warm before it counts
			if _, err := c.do(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	for range nRounds {
		for _, i := range order {
			samples := make([]time.Duration, 0, ops)
			self, other := processorTime(os.Getpid()), processorTime(contenders[i].pid)
			for range ops {
				took, err := contenders[i].do(ctx)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", contenders[i].name, err)
				}
				samples = append(samples, took)
			}
			out[i].rounds = append(out[i].rounds, samples)
			out[i].extra += processorTime(contenders[i].pid) - other
			out[i].cpu += processorTime(os.Getpid()) - self
		}
		slices.Reverse(order)
	}
	for i := range out {
		out[i].finish()
	}
	return out, nil
}

func (t *timing) finish() {
	all := t.rounds.all()
	t.Samples, t.Median = len(all), summarize(t.rounds.medians())
	t.P50, t.P99 = quantile(all, 0.5), quantile(all, 0.99)
	if len(all) > 0 {
		t.Max = all[len(all)-1]
		t.CPU, t.Extra = float64(t.cpu.Microseconds())/float64(len(all)), float64(t.extra.Microseconds())/float64(len(all))
	}
}
