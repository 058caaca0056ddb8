package supervisor

import "sync/atomic"

// lostCounter counts what was dropped since it was last taken. Safe for concurrent use.
type lostCounter struct{ n atomic.Uint64 }

func (c *lostCounter) add()         { c.n.Add(1) }
func (c *lostCounter) take() uint64 { return c.n.Swap(0) }
