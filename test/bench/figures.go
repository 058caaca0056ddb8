package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
)

// The limits of the figures that have one.
const (
	mostAlone  = 40 << 20 // bytes, without a plugin
	startAlone = 100 * time.Millisecond
	startMany  = 3 * time.Second
	manyStart  = 50 // plugins
)

// figureSamples is how many samples a figure has, of which the middle one counts.
const figureSamples = 3

// mostForContainer is the memory in bytes that a known container may take with its pod, and how large they are encoded.
func mostForContainer() (limit float64, encoded int) {
	pod := typical().pod("old-1234", "none")
	encoded = proto.Size(pod) + proto.Size(typical().container(pod))
	return float64(4<<10 + 2*encoded), encoded
}

// figures are the bars of the supervisor's own figures, which have no counterpart in the stock NRI: each as a part of its limit, with room for a busy machine in the limits.
func (b *bench) figures(context.Context) ([]bar, error) {
	figure := func(name, text string, measure func(context.Context) ([]float64, error)) bar {
		return bar{name: name, text: text, bound: 1, measure: func(ctx context.Context, _ int) ([]float64, []timing, error) {
			parts, err := measure(ctx)
			return parts, nil, err
		}}
	}
	return []bar{
		figure("start-alone", "from the start to the registration without a plugin: times 100 ms", func(ctx context.Context) ([]float64, error) {
			took, err := b.starts(ctx, setup{}, func(s started) time.Duration { return s.registered })
			return over(took, milliseconds(startAlone)), err
		}),
		figure("start-50", "from the start until 50 plugins are ready: times 3 s", func(ctx context.Context) ([]float64, error) {
			took, err := b.starts(ctx, setup{plugins: manyStart}, func(s started) time.Duration { return s.ready })
			return over(took, milliseconds(startMany)), err
		}),
		figure("memory-alone", "resident memory without a plugin: times 40 MiB", func(ctx context.Context) ([]float64, error) {
			bytes, err := b.residents(ctx, figureSamples, setup{})
			return over(bytes, mostAlone), err
		}),
		figure("memory-container", "resident memory for each of 1,000 containers with its pod: times 4 KiB and twice their encoding", func(ctx context.Context) ([]float64, error) {
			const containers = 1000
			alone, err1 := b.residents(ctx, figureSamples, setup{})
			full, err2 := b.residents(ctx, figureSamples, setup{containers: containers})
			limit, _ := mostForContainer()
			out := make([]float64, 0, len(full))
			for _, bytes := range full {
				out = append(out, (bytes-summarize(alone).Median)/containers/limit)
			}
			return out, errors.Join(err1, err2)
		}),
	}, nil
}

// over divides values by their limit.
func over(values []float64, limit float64) []float64 {
	out := make([]float64, 0, len(values))
	for _, v := range values {
		out = append(out, v/limit)
	}
	return out
}

// startUp measures how long the supervisor takes to register, and its plugins to be ready.
func (b *bench) startUp(ctx context.Context) error {
	alone, err1 := b.starts(ctx, setup{}, func(s started) time.Duration { return s.registered })
	many, err2 := b.starts(ctx, setup{plugins: manyStart}, func(s started) time.Duration { return s.ready })
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	b.fact("from the start to the registration, without a plugin", summarize(alone).Median, "ms", fmt.Sprintf("under %d ms", startAlone.Milliseconds()))
	b.fact(fmt.Sprintf("from the start until %d plugins are ready", manyStart), summarize(many).Median, "ms", fmt.Sprintf("under %d ms", startMany.Milliseconds()))
	return nil
}

// starts are some starts one after the other, in milliseconds.
func (b *bench) starts(ctx context.Context, s setup, of func(started) time.Duration) ([]float64, error) {
	const times = 5
	out := make([]float64, 0, times)
	for range times {
		at, err := b.startedIn(ctx, s)
		if err != nil {
			return nil, err
		}
		out = append(out, milliseconds(of(at)))
	}
	return out, nil
}

func (b *bench) startedIn(ctx context.Context, s setup) (started, error) {
	defer b.closeSides()
	sd, err := b.newSide("supervisor", s)
	if err != nil {
		return started{}, err
	}
	return b.supervise(ctx, b.supervisor, sd)
}
