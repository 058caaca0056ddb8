package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
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
	alone, err := b.resident(ctx, figureSamples, setup{})
	if err != nil {
		return err
	}
	b.fact("resident memory without a plugin", alone/(1<<20), "MiB", fmt.Sprintf("under %d MiB", mostAlone>>20))
	const plugins, containers = 100, 1000
	with, err := b.resident(ctx, 1, setup{plugins: plugins})
	if err != nil {
		return err
	}
	b.fact("resident memory for each plugin", (with-alone)/plugins/(1<<10), "KiB", "")
	full, err := b.resident(ctx, figureSamples, setup{containers: containers})
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
	many, err := b.resident(ctx, 1, setup{containers: manyContainers})
	if err != nil {
		return err
	}
	b.fact("resident memory for each of 10,000 known containers", (many-alone)/manyContainers/(1<<10), "KiB", "")
	both, err := b.resident(ctx, 1, setup{plugins: plugins, containers: manyContainers})
	if err != nil {
		return err
	}
	b.fact("resident memory with 10,000 containers and 100 plugins", both/(1<<20), "MiB", "")
	b.fact("  of which for each plugin and container", ((both-with)-(many-alone))/manyContainers/float64(plugins), "bytes", "")
	return nil
}

// resident is the middle of some samples of the memory.
func (b *bench) resident(ctx context.Context, samples int, s setup) (float64, error) {
	bytes, err := b.residents(ctx, samples, s)
	return summarize(bytes).Median, err
}

// residents starts supervisors, each at a runtime of its own, waits until their memory has settled, and returns it in bytes.
func (b *bench) residents(ctx context.Context, samples int, s setup) ([]float64, error) {
	defer b.closeSides()
	var sides []*side
	for range samples {
		sd, err := b.supervised(ctx, s)
		if err != nil {
			return nil, err
		}
		sides = append(sides, sd)
	}
	// The garbage of the start goes back to the system within some seconds.
	const settle = 6 * time.Second
	if err := rest(ctx, settle); err != nil {
		return nil, err
	}
	out := make([]float64, 0, samples)
	for _, sd := range sides {
		bytes, err := statusBytes(sd.pid, residentNow)
		if err != nil {
			return nil, err
		}
		out = append(out, bytes)
	}
	return out, nil
}

// rest does nothing for a while.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// What /proc/PID/status calls the resident memory.
const (
	residentNow  = "VmRSS"
	residentPeak = "VmHWM"
)

func statusBytes(pid int, name string) (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib * (1 << 10), err
		}
	}
	return 0, fmt.Errorf("%s is not in /proc/%d/status", name, pid)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
