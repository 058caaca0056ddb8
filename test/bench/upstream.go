package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/nri/pkg/adaptation/builtin"
	"github.com/containerd/nri/pkg/api"
)

// upstream measures apart what the code of others costs that each event goes through: ttrpc's round trip, what NRI adds to it, and NRI's merge of ten replies, in the same turns as what the stock NRI
// and the supervisor take with ten plugins.
func (b *bench) upstream(ctx context.Context) error {
	defer b.closeSides()
	const n = 10
	least, err1 := b.newFloor()
	one, err2 := b.stock(ctx, setup{plugins: 1})
	merge, err3 := b.newSide("merge of 10", setup{builtin: n})
	stock, err4 := b.stock(ctx, setup{plugins: n})
	ours, err5 := b.supervised(ctx, setup{plugins: n})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	p := typical()
	t, err := race(ctx, b.times(fullRounds), opsPerRound,
		least.creator(p, pluginName(0)), one.creator(p, pluginName(0), 1), merge.creator(p, "all", n), stock.creator(p, "all", n), ours.creator(p, "all", n))
	if err != nil {
		return err
	}
	b.report.Upstream = t
	for i, what := range []string{
		"ttrpc: one round trip of a typical container to a process", "the same through NRI's adaptation, multiplexer and stub", "NRI's adaptation with 10 plugins inside it, which merges their replies",
		"the stock NRI with these 10 as processes", "the supervisor with the same",
	} {
		fmt.Fprintf(b.out, "%-75s p50 %6.0f µs   p99 %6.0f µs\n", what, t[i].P50, t[i].P99)
	}
	return nil
}

// builtins are plugins in the runtime's process that adjust containers as the plugins of the benchmark do.
func builtins(n int) []*builtin.BuiltinPlugin {
	out := make([]*builtin.BuiltinPlugin, 0, n)
	for i := range n {
		out = append(out, &builtin.BuiltinPlugin{
			Base: pluginName(i), Index: setup{}.index(i),
			Handlers: builtin.BuiltinHandlers{
				CreateContainer: func(context.Context, *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
					a := &api.ContainerAdjustment{}
					a.AddEnv("BENCH_"+pluginName(i), "1")
					a.AddAnnotation("bench.example/"+pluginName(i), "1")
					return &api.CreateContainerResponse{Adjust: a}, nil
				},
			},
		})
	}
	return out
}
