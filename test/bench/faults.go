package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// hungPlugin compares the supervisor with a plugin that hung for ever on one pod with one whose plugins are well, by events of pods that the plugin did not select.
func (b *bench) hungPlugin(ctx context.Context) ([]bar, error) {
	const n = 10
	well, err1 := b.supervised(ctx, setup{plugins: n})
	ill, err2 := b.supervised(ctx, setup{plugins: n})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	well.name, ill.name = "all well", "one hung"
	stuck := typical().pod("stuck", pluginName(0))
	stuck.Labels["hang"] = "yes"
	others := pluginName(5)
	return []bar{{
		name: "hung-others", text: "one plugin hung, events of other pods: times the p99 without it", bound: 1.2,
		measure: func(ctx context.Context, rounds int) ([]float64, []timing, error) {
			const ops = 200                                                                                                    // enough for a p99
			_, _, _ = ill.createContainer(ctx, &api.CreateContainerRequest{Pod: stuck, Container: typical().container(stuck)}) // what it becomes is not the point
			t, err := race(ctx, rounds, ops, well.creator(typical(), others, 1), ill.creator(typical(), others, 1))
			if err != nil {
				return nil, nil, err
			}
			return ratios(t[1].rounds.quantiles(0.99), t[0].rounds.quantiles(0.99)), t, nil
		},
	}}, nil
}

// The slow plugin: it needs 300 ms for one pod in ten, of 100 pods a second.
const (
	slowWork = 300 * time.Millisecond
	podsPace = 10 * time.Millisecond
	slowEach = 10
)

// slowPlugin measures what a slow but healthy plugin with a lane share costs the pods that it does not select, by some streams of pods of so long in turns with and without it.
func (b *bench) slowPlugin(duration time.Duration) func(context.Context) ([]bar, error) {
	return func(ctx context.Context) ([]bar, error) {
		const n = 3
		const most = 500 * time.Millisecond
		lane := "  laneShare: {ratio: 0.2, burst: 300ms}\n"
		ours, err := b.supervised(ctx, setup{plugins: n, slow: slowWork, extra: lane})
		if err != nil {
			return nil, err
		}
		var others float64
		shared := func() float64 { return others }
		var last []timing // of lane-others, of which lane-p99 is another side
		measure := func(ctx context.Context) ([]timing, error) {
			t := []timing{{Name: "healthy"}, {Name: "one slow"}}
			before := usedProcessors()
			defer func() { others = usedProcessors().others(before) }()
			for range figureSamples {
				for i := range t {
					samples, err := ours.stream(ctx, duration, i == 1)
					if err != nil {
						return nil, err
					}
					t[i].rounds = append(t[i].rounds, samples)
				}
			}
			t[0].finish()
			t[1].finish()
			return t, nil
		}
		return []bar{{
			name: "lane-others", text: "a plugin slow by 300 ms on a tenth of 100 pods/s, lane share 0.2: times the p50 of other pods without it", bound: 2, others: shared,
			measure: func(ctx context.Context, _ int) ([]float64, []timing, error) {
				t, err := measure(ctx)
				if err != nil {
					return nil, nil, err
				}
				last = t
				return ratios(t[1].rounds.medians(), t[0].rounds.medians()), t, nil
			},
		}, {
			name: "lane-p99", text: "the same plugin: p99 of other pods, times 500 ms", bound: 1, others: shared,
			measure: func(ctx context.Context, _ int) ([]float64, []timing, error) {
				t := last
				last = nil // measured again, it is measured anew
				if t == nil {
					var err error
					if t, err = measure(ctx); err != nil {
						return nil, nil, err
					}
				}
				return over(t[1].rounds.quantiles(0.99), float64(most.Microseconds())), t[1:], nil
			},
		}}, nil
	}
}

// stream starts a container every 10 ms, whatever became of the one before, and returns how long those took that plugin 0 does not select, from the moment at which they should
// have begun.
func (sd *side) stream(ctx context.Context, duration time.Duration, slow bool) ([]time.Duration, error) {
	var mu sync.Mutex
	var out []time.Duration
	var errs []error
	var all sync.WaitGroup
	tick := time.NewTicker(podsPace)
	defer tick.Stop()
	begin := time.Now()
	for i := 0; time.Since(begin) < duration; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		due := begin.Add(time.Duration(i+1) * podsPace)
		all.Go(func() {
			role := pluginName(1)
			if i%slowEach == 0 {
				role = pluginName(0)
			}
			pod := typical().pod(fmt.Sprintf("stream-%t-%d", slow, i), role)
			if slow && role == pluginName(0) {
				pod.Labels["slow"] = "yes"
			}
			_, _, err := sd.createContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: typical().container(pod)})
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else if role != pluginName(0) {
				out = append(out, max(took, 0))
			}
		})
	}
	all.Wait()
	return out, errors.Join(errs[:min(len(errs), 3)]...)
}

// slowStock shows what the slow plugin costs without the supervisor.
func (b *bench) slowStock(ctx context.Context) error {
	defer b.closeSides()
	stock, err := b.stock(ctx, setup{plugins: 3, slow: slowWork})
	if err != nil {
		return err
	}
	const short = 10 * time.Second // it falls behind without end; longer tells nothing more
	var t [2]timing
	for i, slow := range []bool{false, true} {
		samples, err := stock.stream(ctx, short, slow)
		if err != nil {
			return err
		}
		t[i] = timing{Name: []string{"healthy", "one slow"}[i], rounds: rounds{samples}}
		t[i].finish()
	}
	b.report.Slow = slices.Clone(t[:])
	fmt.Fprintf(b.out, "stock NRI, a plugin slow by 300 ms on a tenth of 100 pods/s: other pods p50 %.0f ms, p99 %.0f ms (healthy: %.1f and %.1f ms)\n",
		t[1].P50/1000, t[1].P99/1000, t[0].P50/1000, t[0].P99/1000)
	return nil
}
