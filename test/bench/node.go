package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// fact is one number that is not a comparison.
type fact struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Bar   string  `json:"bar,omitempty"`
	Note  string  `json:"note,omitempty"`
}

func (b *bench) fact(name string, value float64, unit, limit string) {
	f := fact{Name: name, Value: value, Unit: unit, Bar: limit}
	b.report.Facts = append(b.report.Facts, f)
	if limit != "" {
		limit = "   (bar: " + limit + ")"
	}
	fmt.Fprintf(b.out, "%-72s %10.4g %s%s\n", name, value, unit, limit)
}

// synchronize measures the registration at a node that has containers already: how long the runtime waits for the supervisor, and for the slowest of 10 stock plugins.
func (b *bench) synchronize(ctx context.Context) error {
	const n, times = 10, 3
	for _, existing := range []int{100, 1000, 10000} {
		var took, all []float64
		late, lateStock := 0, 0
		for range times {
			ms, err := b.registrations(ctx, setup{plugins: n, containers: existing}, true)
			if took, late, err = attempt(took, late, ms, err); err != nil {
				return err
			}
			ms, err = b.registrations(ctx, setup{plugins: n, containers: existing}, false)
			if all, lateStock, err = attempt(all, lateStock, ms, err); err != nil {
				return err
			}
		}
		b.synchronized(fmt.Sprintf("Synchronize of %d containers, acknowledged by the supervisor after", existing), took, late, "inside the runtime's 2 s")
		b.synchronized(fmt.Sprintf("Synchronize of %d containers to 10 stock plugins, all together", existing), all, lateStock, "")
	}
	return b.mostSynchronized(ctx)
}

// attempt notes one registration: that a runtime gives up a plugin because of its deadline is a result, anything else an error.
func attempt(values []float64, late int, ms float64, err error) ([]float64, int, error) {
	switch {
	case errors.Is(err, errNotSynchronized):
		return values, late + 1, nil
	case err != nil:
		return values, late, err
	}
	return append(values, ms), late, nil
}

func (b *bench) synchronized(name string, values []float64, late int, limit string) {
	b.fact(name, summarize(values).Median, "ms", limit)
	if late > 0 {
		note := fmt.Sprintf("%d of %d times the runtime gave up at its deadline of 2 s", late, late+len(values))
		b.report.Facts[len(b.report.Facts)-1].Note = note
		fmt.Fprintf(b.out, "  %s\n", note)
	}
}

func (b *bench) registrations(ctx context.Context, s setup, hosted bool) (float64, error) {
	defer b.closeSides()
	if hosted {
		sd, err := b.newSide("supervisor", s)
		if err != nil {
			return 0, err
		}
		at, err := b.supervise(ctx, b.supervisor, sd)
		return milliseconds(at.synchronize), err
	}
	sd, err := b.newSide("stock", s)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for i := range s.plugins {
		if err := b.startPlugin(sd, i); err != nil {
			return 0, err
		}
		took, err := sd.await(ctx)
		if err != nil {
			return 0, err
		}
		sum += took
	}
	return milliseconds(sum), nil
}

// memory measures the supervisor's resident memory: alone, for each plugin, and for each container that it knows.
func (b *bench) memory(ctx context.Context) error {
	alone, err := b.resident(ctx, setup{})
	if err != nil {
		return err
	}
	b.fact("resident memory without a plugin", alone/(1<<20), "MiB", fmt.Sprintf("under %d MiB", mostAlone>>20))
	const plugins, containers = 100, 1000
	with, err := b.resident(ctx, setup{plugins: plugins})
	if err != nil {
		return err
	}
	b.fact("resident memory for each plugin", (with-alone)/plugins/(1<<10), "KiB", "")
	full, err := b.resident(ctx, setup{containers: containers})
	if err != nil {
		return err
	}
	limit, encoded := mostForContainer()
	b.fact("resident memory for each known container with its pod", (full-alone)/containers/(1<<10), "KiB",
		fmt.Sprintf("under %.1f KiB: 4 KiB and twice the %d bytes of the encoded pod and container", limit/(1<<10), encoded))
	return b.memoryOfMany(ctx, alone, with, plugins)
}

// memoryOfMany measures the memory on a node that is larger than any, without plugins and with many that select nothing. alone and with are the memory without containers.
func (b *bench) memoryOfMany(ctx context.Context, alone, with float64, plugins int) error {
	adaptation.SetPluginRequestTimeout(patience) // it is not the time that counts
	defer adaptation.SetPluginRequestTimeout(api.DefaultPluginRequestTimeout)
	many, err := b.resident(ctx, setup{containers: manyContainers})
	if err != nil {
		return err
	}
	b.fact("resident memory for each of 10,000 known containers", (many-alone)/manyContainers/(1<<10), "KiB", "")
	both, err := b.resident(ctx, setup{plugins: plugins, containers: manyContainers})
	if err != nil {
		return err
	}
	b.fact("resident memory with 10,000 containers and 100 plugins", both/(1<<20), "MiB", "")
	b.fact("  of which for each plugin and container", ((both-with)-(many-alone))/manyContainers/float64(plugins), "bytes", "")
	return nil
}

// The limits of the figures that have one.
const (
	mostAlone  = 40 << 20 // bytes, without a plugin
	startAlone = 100 * time.Millisecond
	startMany  = 3 * time.Second
	manyStart  = 50 // plugins
)

// mostForContainer is the memory in bytes that a known container may take with its pod, and how large they are encoded.
func mostForContainer() (limit float64, encoded int) {
	pod := typical().pod("old-1234", "none")
	encoded = proto.Size(pod) + proto.Size(typical().container(pod))
	return float64(4<<10 + 2*encoded), encoded
}

// figures are the bars of the supervisor's own figures, which have no counterpart in the stock NRI: each as a part of its limit, with room for a busy machine in the limits.
func (b *bench) figures(context.Context) ([]bar, error) {
	figure := func(name, text string, measure func(context.Context) (float64, error)) bar {
		return bar{name: name, text: text, bound: 1, measure: func(ctx context.Context, _ int) ([]float64, []timing, error) {
			part, err := measure(ctx)
			return []float64{part}, nil, err
		}}
	}
	return []bar{
		figure("start-alone", "from the start to the registration without a plugin: times 100 ms", func(ctx context.Context) (float64, error) {
			best, err := b.fastestStart(ctx, setup{}, func(s started) time.Duration { return s.registered })
			return float64(best) / float64(startAlone), err
		}),
		figure("start-50", "from the start until 50 plugins are ready: times 3 s", func(ctx context.Context) (float64, error) {
			best, err := b.fastestStart(ctx, setup{plugins: manyStart}, func(s started) time.Duration { return s.ready })
			return float64(best) / float64(startMany), err
		}),
		figure("memory-alone", "resident memory without a plugin: times 40 MiB", func(ctx context.Context) (float64, error) {
			bytes, err := b.resident(ctx, setup{})
			return bytes / mostAlone, err
		}),
		figure("memory-container", "resident memory for each of 1,000 containers with its pod: times 4 KiB and twice their encoding", func(ctx context.Context) (float64, error) {
			const containers = 1000
			alone, err1 := b.resident(ctx, setup{})
			full, err2 := b.resident(ctx, setup{containers: containers})
			limit, _ := mostForContainer()
			return (full - alone) / containers / limit, errors.Join(err1, err2)
		}),
	}, nil
}

// resident starts a supervisor, waits until its memory has settled, and returns it in bytes.
func (b *bench) resident(ctx context.Context, s setup) (float64, error) {
	defer b.closeSides()
	sd, err := b.supervised(ctx, s)
	if err != nil {
		return 0, err
	}
	// The garbage of the start goes back to the system within some seconds.
	const settle = 6 * time.Second
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return residentBytes(sd.pid)
}

func residentBytes(pid int) (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib * (1 << 10), err
		}
	}
	return 0, errors.New("VmRSS is not in /proc/PID/status")
}

// startUp measures how long the supervisor takes to register, and its plugins to be ready.
func (b *bench) startUp(ctx context.Context) error {
	alone, err := b.fastestStart(ctx, setup{}, func(s started) time.Duration { return s.registered })
	if err != nil {
		return err
	}
	many, err := b.fastestStart(ctx, setup{plugins: manyStart}, func(s started) time.Duration { return s.ready })
	if err != nil {
		return err
	}
	b.fact("from the start to the registration, without a plugin", milliseconds(alone), "ms", fmt.Sprintf("under %d ms", startAlone.Milliseconds()))
	b.fact(fmt.Sprintf("from the start until %d plugins are ready", manyStart), milliseconds(many), "ms", fmt.Sprintf("under %d ms", startMany.Milliseconds()))
	return nil
}

// fastestStart is the best of some starts: what else the machine does only makes one slower.
func (b *bench) fastestStart(ctx context.Context, s setup, of func(started) time.Duration) (time.Duration, error) {
	const times = 4
	best := time.Duration(math.MaxInt64)
	for range times {
		at, err := b.startedIn(ctx, s)
		if err != nil {
			return 0, err
		}
		best = min(best, of(at))
	}
	return best, nil
}

func (b *bench) startedIn(ctx context.Context, s setup) (started, error) {
	defer b.closeSides()
	sd, err := b.newSide("supervisor", s)
	if err != nil {
		return started{}, err
	}
	return b.supervise(ctx, b.supervisor, sd)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
