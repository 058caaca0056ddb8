package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A start on a full node: the supervisor registers while there are 1,000 containers, and tells them to 100 plugins that select all of them, while the runtime creates further ones at once.
const (
	fullPlugins    = 100
	fullContainers = 1000
	fullFirst      = 10 * time.Second // what counts as the first creations
	fullLater      = 3 * time.Second  // what they are compared with, when all is quiet again
	fullPause      = 2 * time.Millisecond
	runtimeWaits   = 2 * time.Second // api.DefaultPluginRequestTimeout
)

// mostAtPeak is how much memory the supervisor may take in bytes while all that is told: what it may without a plugin, and what the state of all plugins takes encoded. With more it would hold
// more than one message for each plugin at a time.
func mostAtPeak() float64 {
	_, encoded := mostForContainer()
	return mostAlone + fullPlugins*fullContainers*float64(encoded)
}

// fullStart is what one start on a full node came to.
type fullStart struct {
	first, later []time.Duration // creations for one of the plugins
	early        int             // of the first: without the plugin's work, before the first that has it
	missed       int             // of the first: without its work later
	ready, peak  float64         // ms from the start until all plugins knew everything; bytes
}

func (b *bench) startFull(ctx context.Context) (fullStart, error) {
	defer b.closeSides()
	var out fullStart
	sd, err := b.newSide("full node", setup{plugins: fullPlugins, containers: fullContainers, role: "all"})
	if err != nil {
		return out, err
	}
	_, ready, err := b.registered(ctx, b.supervisor, sd)
	if err != nil {
		return out, err
	}
	told := make(chan error, 1)
	go func() {
		took, err := ready(ctx)
		out.ready = milliseconds(took)
		told <- err
	}()
	c := sd.creations(typical(), pluginName(1), 1)
	if out.first, out.early, out.missed, err = c.forSoLong(ctx, fullFirst); err != nil {
		return out, errors.Join(err, ctx.Err())
	}
	if err = <-told; err != nil {
		return out, err
	}
	if out.peak, err = statusBytes(sd.pid, residentPeak); err != nil {
		return out, err
	}
	out.later, _, _, err = c.forSoLong(ctx, fullLater)
	return out, err
}

// forSoLong creates one container after the other, with a short pause after each, and returns how long each took and how many lack the plugin's work, until the first that has it, and later.
func (c *creator) forSoLong(ctx context.Context, d time.Duration) (took []time.Duration, early, missed int, err error) {
	served := false
	for begin := time.Now(); time.Since(begin) < d; {
		one, got, err := c.attempt(ctx)
		if err != nil {
			return took, early, missed, err
		}
		took = append(took, one)
		switch {
		case got == c.want:
			served = true
		case served:
			missed++
		default:
			early++
		}
		if err := rest(ctx, fullPause); err != nil {
			return took, early, missed, err
		}
	}
	return took, early, missed, nil
}

// fullNode are the bars of such a start, all of the same starts.
func (b *bench) fullNode(context.Context) ([]bar, error) {
	var last []fullStart
	var others float64
	shared := func() float64 { return others }
	measured := map[string]bool{}
	of := func(name string, part func(fullStart) float64) func(context.Context, int) ([]float64, []timing, error) {
		return func(ctx context.Context, _ int) ([]float64, []timing, error) {
			if last == nil || measured[name] { // measured again, it is measured anew
				last, measured = nil, map[string]bool{}
				before := usedProcessors()
				for range figureSamples {
					s, err := b.startFull(ctx)
					if err != nil {
						return nil, nil, err
					}
					last = append(last, s)
					b.report.Full = append(b.report.Full, s.report())
				}
				others = usedProcessors().others(before)
			}
			measured[name] = true
			parts := make([]float64, 0, len(last))
			t := []timing{{Name: "first 10 s"}, {Name: "later"}}
			for _, s := range last {
				parts = append(parts, part(s))
				t[0].rounds, t[1].rounds = append(t[0].rounds, s.first), append(t[1].rounds, s.later)
			}
			t[0].finish()
			t[1].finish()
			return parts, t, nil
		}
	}
	return []bar{
		{
			name: "first-missed", text: "first creations on a full node (1,000 containers, 100 plugins that select all): without the work of a plugin that had served one", bound: 0, others: shared,
			measure: of("first-missed", func(s fullStart) float64 { return float64(s.missed) }),
		},
		{
			name: "first-worst", text: "the slowest of them: times the runtime's 2 s", bound: 1, others: shared,
			measure: of("first-worst", func(s fullStart) float64 {
				all := sortedMicros(s.first)
				return quantile(all, 1) / float64(runtimeWaits.Microseconds())
			}),
		},
		{
			name: "first-p50", text: "half of them: times the p50 of the same creations later", bound: 2, others: shared,
			measure: of("first-p50", func(s fullStart) float64 {
				return quantile(sortedMicros(s.first), 0.5) / quantile(sortedMicros(s.later), 0.5)
			}),
		},
		{
			name: "memory-peak", text: "resident memory at its highest meanwhile: times 40 MiB and the state encoded for each plugin", bound: 1, others: shared,
			measure: of("memory-peak", func(s fullStart) float64 { return s.peak / mostAtPeak() }),
		},
	}, nil
}

// afterSync tells of starts on a full node; after the bars of the same run, of those.
func (b *bench) afterSync(ctx context.Context) error {
	for len(b.report.Full) < figureSamples {
		s, err := b.startFull(ctx)
		if err != nil {
			return err
		}
		b.report.Full = append(b.report.Full, s.report())
	}
	for _, s := range b.report.Full {
		fmt.Fprintf(b.out, "start on a full node: all plugins ready after %.0f ms; %d creations in the first 10 s: p50 %.0f p99 %.0f max %.0f µs, "+
			"%d without their plugin before it served one, %d later; later p50 %.0f p99 %.0f µs; peak %.0f MiB\n",
			s.Ready, s.Samples, s.P50, s.P99, s.Max, s.Early, s.Missed, s.LaterP50, s.LaterP99, s.Peak/(1<<20))
	}
	return nil
}

func (s fullStart) report() fullStartReport {
	first, later := sortedMicros(s.first), sortedMicros(s.later)
	return fullStartReport{
		Ready: s.ready, Samples: len(first), P50: quantile(first, 0.5), P99: quantile(first, 0.99), Max: quantile(first, 1), Early: s.early, Missed: s.missed,
		LaterP50: quantile(later, 0.5), LaterP99: quantile(later, 0.99), Peak: s.peak,
	}
}

// fullStartReport is a start on a full node as it is reported.
type fullStartReport struct {
	Ready    float64 `json:"readyMilliseconds"` // from the start until all plugins knew everything
	Samples  int     `json:"samples"`           // in the first 10 s
	P50      float64 `json:"p50Microseconds"`
	P99      float64 `json:"p99Microseconds"`
	Max      float64 `json:"maxMicroseconds"`
	Early    int     `json:"missedBeforeTheFirstServed"`
	Missed   int     `json:"missed"` // without its work later
	LaterP50 float64 `json:"laterP50Microseconds"`
	LaterP99 float64 `json:"laterP99Microseconds"`
	Peak     float64 `json:"peakBytes"`
}
