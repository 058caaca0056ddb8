package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"sync"
)

// demoLine is one line of the supervisor's log, as far as the demo understands it.
type demoLine struct {
	Level       string `json:"level"`
	Msg         string `json:"msg"`
	Plugin      string `json:"plugin"`
	ContainerID string `json:"containerID"`
	Event       string `json:"event"`
	Reason      string `json:"reason"`
	From        string `json:"from"`
	To          string `json:"to"`
	Address     string `json:"address"`
	Error       string `json:"error"`
}

// The lines that the demo waits for or counts.
const (
	demoMsgListening = "listening"
	demoMsgMissing   = "plugin's work is missing"
	demoMsgStarted   = "plugin started"
	demoMsgExited    = "plugin exited"
	demoMsgBreaker   = "circuit breaker changed"
)

// demoLog is the supervisor's log. It is safe for concurrent use.
type demoLog struct {
	mu        sync.Mutex
	lines     []demoLine
	starts    map[string]int    // of each plugin
	breakers  map[string]string // the state of each plugin's breaker
	address   string
	listening chan struct{} // closed when the supervisor has told its address
}

func newDemoLog() *demoLog {
	return &demoLog{starts: map[string]int{}, breakers: map[string]string{}, listening: make(chan struct{})}
}

// read takes one line of the supervisor's stderr. What is no JSON is no log line: a panic, say; the child keeps the last of those for its error.
func (l *demoLog) read(text []byte) {
	var line demoLine
	if !bytes.HasPrefix(text, []byte("{")) || json.Unmarshal(text, &line) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	switch line.Msg {
	case demoMsgListening:
		if l.address == "" {
			l.address = line.Address
			close(l.listening)
		}
	case demoMsgStarted:
		l.starts[line.Plugin]++
	case demoMsgBreaker:
		l.breakers[line.Plugin] = line.To
	}
}

// all returns the lines so far.
func (l *demoLog) all() []demoLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]demoLine(nil), l.lines...)
}

// restarts returns how often each plugin was started again, breakerStates what its breaker shows; none while it never changed.
func (l *demoLog) restarts(plugin string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.starts[plugin]-1, 0)
}

func (l *demoLog) breakerStates() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.breakers)
}

func (l *demoLog) metricsAddress() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.address
}
