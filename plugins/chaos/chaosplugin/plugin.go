package chaosplugin

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/plugins"
)

const (
	// StartEnv is the environment variable with what to do before the handshake.
	StartEnv = "CHAOS_START"
	// StartWhileEnv is the environment variable with a file without which StartEnv is ignored.
	StartWhileEnv = "CHAOS_START_WHILE"
	// InjectedEnv is the variable on each container that shows the plugin's work.
	InjectedEnv = "CHAOS"
)

// Plugin fails on command. Make one with New.
type Plugin struct {
	mu     sync.Mutex // guards the rest
	config Config
	used   []int // how often each fault acted
	record record
	stub   stub.Stub
}

// New returns a plugin without faults.
func New() *Plugin { return &Plugin{config: Config{Name: "chaos"}, record: newRecord()} }

// Main does what CHAOS_START says, runs the plugin, and exits.
func Main() {
	if err := startFault(); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1) //nolint:forbidigo // this is the main function of a command
	}
	p := New()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	go func() {
		for range signals {
			p.dump()
		}
	}()
	plugins.Main(p, plugins.WithStub(func(s stub.Stub) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stub = s
	}))
}

// startFault does what the environment asks for at the start.
func startFault() error {
	text := os.Getenv(StartEnv)
	if file := os.Getenv(StartWhileEnv); text == "" || file != "" && !exists(file) {
		return nil
	}
	a, err := parseAction(text)
	if err != nil {
		return fmt.Errorf("%s: %w", StartEnv, err)
	}
	switch a.verb {
	case "garbage":
		_, _ = fmt.Fprintln(os.Stdout, "chaos: this is no handshake") // the handshake fails either way
		return nil
	case "version":
		_, _ = fmt.Fprintln(os.Stdout, "1|9999|unix|/nonexistent|grpc|") // go-plugin's handshake, of a contract that nobody knows
		hang()
	}
	return a.do()
}

// Configure takes the configuration, which replaces the one before. The counts of acted faults start again.
func (p *Plugin) Configure(_ context.Context, config, _, _ string) (api.EventMask, error) {
	c, err := ParseConfig(config)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	p.config, p.used = c, make([]int, len(c.Faults))
	p.record.configured++
	p.mu.Unlock()
	mask := api.ValidEvents
	if !c.Validate {
		mask.Clear(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	}
	return mask, p.act("Configure", nil, nil)
}

// Synchronize replaces what the plugin knows.
func (p *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	p.record.synchronize(pods, ctrs)
	p.mu.Unlock()
	a, err := p.choose("Synchronize", nil)
	if err != nil {
		return nil, err
	}
	if updates := p.replies(a, nil); updates != nil {
		return updates, nil
	}
	return nil, p.carryOut(a, nil)
}

// Shutdown has no answer, but can hang or exit.
func (p *Plugin) Shutdown(context.Context) {
	if err := p.act("Shutdown", nil, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Health is what a fault makes of it.
func (p *Plugin) Health(context.Context) error { return p.act("Health", nil, nil) }

// event records an event and carries out the fault that applies.
func (p *Plugin) event(name string, pod *api.PodSandbox, c *api.Container) error {
	p.mu.Lock()
	p.record.event(name, pod, c)
	p.mu.Unlock()
	return p.act(name, pod, c)
}

// updating is event, for those whose answer can carry updates.
func (p *Plugin) updating(name string, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	p.record.event(name, pod, c)
	p.mu.Unlock()
	a, err := p.choose(name, pod)
	if err != nil {
		return nil, err
	}
	if updates := p.replies(a, c); updates != nil {
		return updates, nil
	}
	return nil, p.carryOut(a, c)
}

// act carries out the fault that applies.
func (p *Plugin) act(event string, pod *api.PodSandbox, c *api.Container) error {
	a, err := p.choose(event, pod)
	if err != nil {
		return err
	}
	return p.carryOut(a, c)
}

// carryOut does what needs the plugin, and whatever can be done anywhere.
func (p *Plugin) carryOut(a action, c *api.Container) error {
	switch a.verb {
	case "dump":
		p.dump()
		return nil
	case "updates": // a flood, from beside the handler
		go func() { _ = p.ask(a.number, c.GetId()) }()
		return nil
	case "inside": // the runtime would wait for the answer to this event first
		return p.ask(1, c.GetId())
	}
	return a.do()
}

// choose returns the action for an event: the pod's annotation, or the first fault that applies and is not used up.
func (p *Plugin) choose(event string, pod *api.PodSandbox) (action, error) {
	if text, ok := pod.GetAnnotations()[AnnotationPrefix+event]; ok {
		return parseAction(text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.config.Faults {
		if f.Event != event || f.Times > 0 && p.used[i] >= f.Times || !f.applies(pod) {
			continue
		}
		p.used[i]++
		return parseAction(f.Action)
	}
	return action{verb: "none"}, nil
}

// dump writes the record down.
func (p *Plugin) dump() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.record.dump(p.config.Name, p.config.Dump); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
