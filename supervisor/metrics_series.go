package supervisor

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// MaxPluginSeries is how many series one plugin can have at most, whatever happens to it (design §10: 150). What is always there takes about 100 of them with all events
// subscribed; the rest is a pool for combinations of labels that come with what happens. When it is used up, further combinations are counted under [OtherSeries], so that
// sums stay right.
const MaxPluginSeries = 150

// pluginPool is how many series the combinations may take: what is left when the fixed series and one series of each metric for the rest are subtracted. A test adds up.
const pluginPool = 40

// pool is what is left for the combinations of one plugin. Safe for concurrent use.
type pool struct {
	mu   sync.Mutex
	left int
}

func (p *pool) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 {
		return false
	}
	p.left--
	return true
}

// combination are the label values of a series behind the plugin's name; unused ones are empty.
type combination [3]string

// series gives the combinations of one metric and one plugin out of a pool. The first ones get a series each; what comes when the pool is empty, or when the metric has
// its share, goes to the series for the rest. Safe for concurrent use.
type series struct {
	pool *pool
	most int // of the pool, so that one metric cannot take all of it

	mu    sync.Mutex
	known map[combination]bool // false: counted with the rest
}

func newSeries(p *pool, most int) *series {
	return &series{pool: p, most: most, known: map[combination]bool{}}
}

// place returns the combination under which c is counted: c itself or rest.
func (s *series) place(c, rest combination) combination {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, met := s.known[c]
	if !met {
		own = s.most > 0 && s.pool.take()
		if own {
			s.most--
		}
		s.known[c] = own
	}
	if own {
		return c
	}
	return rest
}

// pooledCounter is a counter of one plugin whose combinations come from its pool. Safe for concurrent use.
type pooledCounter struct {
	series *series
	with   func(combination) prometheus.Counter

	mu       sync.Mutex
	counters map[combination]prometheus.Counter // a hot path resolves no label twice
}

func newPooledCounter(p *pool, most int, with func(combination) prometheus.Counter) *pooledCounter {
	return &pooledCounter{series: newSeries(p, most), with: with, counters: map[combination]prometheus.Counter{}}
}

// inc counts one more of c, or of rest when c has no series of its own.
func (p *pooledCounter) inc(c, rest combination) { p.add(c, rest, 1) }

// add counts n more; n is not negative.
func (p *pooledCounter) add(c, rest combination, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.counters[c]
	if !ok {
		k = p.with(p.series.place(c, rest))
		p.counters[c] = k
	}
	k.Add(float64(n))
}

// always gives c a series that does not come from the pool, and makes it appear with 0.
func (p *pooledCounter) always(c combination) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.counters[c]; !ok {
		p.counters[c] = p.with(c)
	}
}
