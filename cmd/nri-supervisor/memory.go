package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryEvery is how often the heap is looked at. It costs microseconds.
	memoryEvery = time.Second
	// spareHeap is what may be allocated between two collections of a small heap. An event that ten plugins see allocates some hundred kilobytes; by Go's default, as much as lives, a
	// supervisor of some megabytes would collect after every few of them, on the processors on which the plugins work.
	spareHeap = 24 << 20
	// percentMost bounds that for a heap that is next to nothing, percentLeast is Go's default.
	percentMost  = 400
	percentLeast = 100
	// quietBytes is what is allocated at most between two looks when nothing happens.
	quietBytes = 512 << 10
	// idleHeap is how much memory the process may hold that nothing uses, before it is given back in a quiet moment.
	idleHeap = 4 << 20
	// restless is for how long a node may have no quiet moment until memory is given back all the same. What it takes back then is some thousand page faults.
	restless = 10 * time.Minute
	// decodedTimes is how much more memory a message takes decoded than encoded, at least.
	decodedTimes = 2
)

// heapState is what Go's collector says, in bytes.
type heapState struct {
	live      uint64 // after the last collection
	held      uint64 // by objects, dead ones too, or free and not given back to the system
	allocated uint64 // since the start
}

// heapKeeper decides how the heap is kept: large where that is cheap, and small when nothing happens. The zero value is ready for use.
type heapKeeper struct {
	seen, given uint64    // allocated at the last look, and when memory was given back last
	packed      uint64    // what was packed since then: the collector may not know yet that the unpacked is garbage
	rested      time.Time // the last quiet moment, or when memory was given back without one
}

// look returns for how much growth, in percent of what lives, a collection is due, and whether memory is to be given back now. packed is how many bytes were packed just before.
func (k *heapKeeper) look(h heapState, packed uint64, now time.Time) (percent int, giveBack bool) {
	percent = percentMost
	if h.live > 0 {
		percent = int(min(max(spareHeap*100/h.live, percentLeast), percentMost))
	}
	quiet := h.allocated-k.seen < quietBytes+2*packed
	k.seen = h.allocated
	k.packed += packed
	if quiet || k.rested.IsZero() {
		k.rested = now
	}
	if (quiet || now.Sub(k.rested) >= restless) && h.held+decodedTimes*k.packed > h.live+idleHeap && h.allocated-k.given > idleHeap {
		k.given, k.packed, k.rested = h.allocated, 0, now
		giveBack = true
	}
	return percent, giveBack
}

// keepHeap keeps the heap until ctx ends. rest makes what is known take little memory, and returns how many bytes it packed. compute is told while memory is given back, which takes a processor: there
// may be events meanwhile. What GOGC in the environment says stays.
func keepHeap(ctx context.Context, rest func() int, compute func() (done func())) {
	var k heapKeeper
	set := 0
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		packed := uint64(rest()) //nolint:gosec // a number of bytes
		percent, giveBack := k.look(readHeap(), packed, time.Now())
		if giveBack {
			done := compute()
			runtime.GC() // what pools hold outlives one collection
			debug.FreeOSMemory()
			done()
		}
		if percent != set && os.Getenv("GOGC") == "" {
			debug.SetGCPercent(percent)
			set = percent
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func readHeap() heapState {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(s)
	return heapState{live: s[0].Value.Uint64(), held: s[1].Value.Uint64() + s[2].Value.Uint64(), allocated: s[3].Value.Uint64()}
}
