package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
)

// demoClient is the conductor's side of the runtime process. It is safe for concurrent use.
type demoClient struct {
	child *demoChild
	lines *demoLines

	mu         sync.Mutex
	listening  bool
	registered int
	containers map[int]demoContainer
	replies    map[int]demoReply
	seq        int
	broken     error         // a report that could not be read
	changed    chan struct{} // closed and replaced at each report
}

// startDemoRuntime starts a runtime process and returns when plugins can connect.
func startDemoRuntime(ctx context.Context, n *demoNursery, socket string) (*demoClient, error) {
	c := &demoClient{containers: map[int]demoContainer{}, replies: map[int]demoReply{}, changed: make(chan struct{})}
	child, err := n.start(ctx, "runtime", c.read, nil, "demo", "runtime", "--socket", socket)
	if err != nil {
		return nil, err
	}
	c.child, c.lines = child, &demoLines{w: child.stdin}
	if err := c.wait(ctx, "listen", func() bool { return c.listening }); err != nil {
		return nil, errors.Join(err, child.stop())
	}
	return c, nil
}

// read takes one report.
func (c *demoClient) read(text []byte) {
	var r demoReport
	err := json.Unmarshal(text, &r)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.broken = fmt.Errorf("read a report of the runtime: %w", err)
	case r.Container != nil:
		c.containers[r.Container.Number] = *r.Container
	case r.Reply != nil:
		c.replies[r.Reply.Seq] = *r.Reply
	case r.Registered > 0:
		c.registered = r.Registered
	case r.Listening:
		c.listening = true
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait returns when a condition holds, which is asked about under the lock.
func (c *demoClient) wait(ctx context.Context, what string, holds func() bool) error {
	for {
		c.mu.Lock()
		ok, err, changed := holds(), c.broken, c.changed
		c.mu.Unlock()
		switch {
		case err != nil:
			return err
		case ok:
			return nil
		}
		select {
		case <-changed:
		case <-c.child.done:
			return fmt.Errorf("wait for the runtime to %s: it ended: %s", what, c.child.last())
		case <-ctx.Done():
			return fmt.Errorf("wait for the runtime to %s: %w", what, ctx.Err())
		}
	}
}

// run starts a pod in the background.
func (c *demoClient) run(p demoPod) error { return c.lines.send(demoRequest{Pod: &p}) }

// started waits for the report on a pod that was run.
func (c *demoClient) started(ctx context.Context, number int) (demoContainer, error) {
	var out demoContainer
	err := c.wait(ctx, fmt.Sprintf("start container %d", number), func() (ok bool) {
		out, ok = c.containers[number]
		return ok
	})
	return out, err
}

// waitRegistered returns when as many plugins have registered.
func (c *demoClient) waitRegistered(ctx context.Context, n int) error {
	return c.wait(ctx, fmt.Sprintf("register plugin %d", n), func() bool { return c.registered >= n })
}

// ask sends a request and waits for its reply.
func (c *demoClient) ask(ctx context.Context, what string, q demoRequest) (demoReply, error) {
	c.mu.Lock()
	c.seq++
	q.Seq = c.seq
	c.mu.Unlock()
	if err := c.lines.send(q); err != nil {
		return demoReply{}, fmt.Errorf("ask the runtime to %s: %w", what, err)
	}
	var rpl demoReply
	err := c.wait(ctx, what, func() (ok bool) {
		rpl, ok = c.replies[q.Seq]
		return ok
	})
	if err == nil && rpl.Err != "" {
		err = fmt.Errorf("ask the runtime to %s: %s", what, rpl.Err)
	}
	return rpl, err
}

// counts returns how many containers have been reported on, and how many plugins have registered.
func (c *demoClient) counts() (containers, registered int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.containers), c.registered
}

// reports returns the reports on all containers.
func (c *demoClient) reports() map[int]demoContainer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.containers)
}
