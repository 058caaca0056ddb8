package chaosplugin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
)

// pause stops this process and has a child continue it after d.
func pause(d time.Duration) error {
	script := fmt.Sprintf("sleep %.3f; kill -CONT %d", d.Seconds(), os.Getpid())
	child, err := shell(script)
	if err != nil {
		return fmt.Errorf("chaos: pause: %w", err)
	}
	if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
		return err
	}
	_, err = child.Wait()
	return err
}

// shell starts a script whose output is this process's.
func shell(script string) (*os.Process, error) {
	return os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{nil, os.Stdout, os.Stderr}})
}

// leakDescriptors opens n files and never closes them.
func leakDescriptors(n int) error {
	for range n {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("chaos: leak descriptors: %w", err)
		}
	}
	return nil
}

// fork leaves a child behind that holds this process's output and heeds no polite signal, and ends this process.
func fork() error {
	if _, err := shell("trap '' TERM HUP INT; while :; do sleep 1000; done"); err != nil {
		return fmt.Errorf("chaos: fork: %w", err)
	}
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// eat allocates and touches n MiB and keeps them.
func eat(n int) error {
	const mib, page = 1 << 20, 4096
	for range n {
		m, err := unix.Mmap(-1, 0, mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return fmt.Errorf("chaos: eat memory: %w", err)
		}
		for i := 0; i < mib; i += page {
			m[i] = 1
		}
	}
	return nil
}

// halfFrame is the beginning of a message on the connection's first channel: a header that promises a thousand bytes, and ten of them.
func halfFrame() []byte {
	const promised, given = 1000, 10
	b := binary.BigEndian.AppendUint32(nil, 1)
	b = binary.BigEndian.AppendUint32(b, promised)
	return append(b, make([]byte, given)...)
}

// replies returns what the action adds to an answer that can carry updates.
func (p *Plugin) replies(a action, c *api.Container) []*api.ContainerUpdate {
	update := func(id string) []*api.ContainerUpdate {
		u := &api.ContainerUpdate{}
		u.SetContainerId(id)
		u.SetLinuxCPUShares(conflictingShares)
		return []*api.ContainerUpdate{u}
	}
	switch a.verb {
	case "foreign":
		return update(a.text)
	case "empty":
		return []*api.ContainerUpdate{{}, nil}
	case "conflict":
		return update(c.GetId())
	}
	return nil
}

// conflictingShares of the processor are what no other plugin asks for.
const conflictingShares = 3

// ask asks the runtime n times to update a container, one request after the other.
func (p *Plugin) ask(n int, id string) error {
	p.mu.Lock()
	s := p.stub
	p.mu.Unlock()
	if s == nil {
		return errors.New("chaos: no connection to ask for updates on")
	}
	var first error
	for i := range n {
		u := &api.ContainerUpdate{}
		u.SetContainerId(id)
		u.SetLinuxCPUShares(uint64(2 + i))
		if _, err := s.UpdateContainers([]*api.ContainerUpdate{u}); err != nil && first == nil {
			first = err
		}
	}
	return first
}
