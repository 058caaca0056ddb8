package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// The conductor and the runtime process talk in lines of JSON: requests on the runtime's stdin, reports on its stdout.

// demoRequest asks the runtime process for something. Exactly one of its fields but Seq is set.
type demoRequest struct {
	// Pod runs a pod in the background. A report of its container follows when that has been started, or has failed.
	Pod *demoPod `json:"pod,omitempty"`
	// Update updates a pod; a reply follows.
	Update *demoPod `json:"update,omitempty"`
	// Settle asks for a reply when every container that will end has ended.
	Settle bool `json:"settle,omitempty"`
	// Seq is repeated in the reply.
	Seq int `json:"seq,omitempty"`
}

// demoReport is what the runtime process tells. Exactly one of its fields is set.
type demoReport struct {
	Listening  bool           `json:"listening,omitempty"`
	Registered int            `json:"registered,omitempty"` // plugins that have registered and been synchronized so far, counting those that are gone
	Container  *demoContainer `json:"container,omitempty"`
	Reply      *demoReply     `json:"reply,omitempty"`
}

// demoContainer is what a runtime knows of the creation of one container. Instants count from the start of the runtime process.
type demoContainer struct {
	Number int `json:"number"` // of its pod
	// Arrived and Started are the begin and the end of what the kubelet waits for: RunPodSandbox, CreateContainer, StartContainer, and what follows each.
	Arrived time.Duration `json:"arrived"`
	Started time.Duration `json:"started"`
	// CreateBegin and CreateEnd are when CreateContainer had the node to itself.
	CreateBegin time.Duration `json:"createBegin"`
	CreateEnd   time.Duration `json:"createEnd"`
	// Reply is the adjustment, in protobuf's deterministic encoding.
	Reply []byte `json:"reply,omitempty"`
	Err   string `json:"err,omitempty"`
}

// waited is how long the container had to wait for NRI.
func (c demoContainer) waited() time.Duration { return c.Started - c.Arrived }

// demoReply answers a request. Settle fills in all of it.
type demoReply struct {
	Seq  int    `json:"seq"`
	Err  string `json:"err,omitempty"`
	Live []int  `json:"live,omitempty"` // the containers that run, by number of their pod, in order
	Late int    `json:"late,omitempty"` // requests that took as long as the runtime waits for a plugin
}

// demoLineLimit is the longest line either side accepts: far more than the largest adjustment, ttrpc's 4 MiB in base64.
const demoLineLimit = 8 << 20

// demoLines writes values as lines. It is safe for concurrent use.
type demoLines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *demoLines) send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	return nil
}

// demoScanner reads lines.
func demoScanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), demoLineLimit)
	return s
}
