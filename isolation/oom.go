package isolation

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// oomPeriod is how often the kills for want of memory are looked at where the kernel kills single processes. What was counted for as long as that without
// ending the plugin hit others of its processes.
const oomPeriod = time.Second

// watchOOM tells Spec.OnOOM of kills for want of memory that the plugin itself outlived, until it ends.
func (i *Instance) watchOOM(p *process) {
	tick := time.NewTicker(oomPeriod)
	defer tick.Stop()
	before := 0
	for {
		select {
		case <-p.exited:
			return
		case <-tick.C:
		}
		now := i.leaf.oomKills()
		if before > i.oomTold() && !dying(p.pid) {
			i.tellOOM(before)
		}
		before = now
	}
}

func (i *Instance) oomTold() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.oomsTold
}

// tellOOM tells of the kills up to a number that were not told yet.
func (i *Instance) tellOOM(kills int) {
	i.mu.Lock()
	n := kills - i.oomsTold
	i.oomsTold = kills
	i.mu.Unlock()
	if n > 0 && i.spec.OnOOM != nil {
		i.spec.OnOOM(n)
	}
}

// countOOM looks a last time, when everything of the incarnation is gone. Kills since the last look are the plugin's own end if SIGKILL ended it and nobody here sent that.
func (i *Instance) countOOM(p *process) {
	kills := i.leaf.oomKills()
	i.mu.Lock()
	i.oom = kills > i.oomsTold
	own := i.oom && i.cause == "" && killed(p.state)
	if own && i.leaf.oomGroup {
		i.oomsTold = kills // all others went with it
	} else if own {
		i.oomsTold++
	}
	i.mu.Unlock()
	i.tellOOM(kills)
}

// killed tells whether SIGKILL ended a process.
func killed(state *os.ProcessState) bool {
	if state == nil {
		return false
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// dying tells whether a process is about to end of SIGKILL, which takes a while under a limit of CPU.
func dying(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const flagsField, exiting = 6, 0x4 // proc_pid_stat(5), PF_EXITING
	if len(fields) <= flagsField {
		return true
	}
	flags, err := strconv.ParseUint(fields[flagsField], 10, 64)
	if err != nil || flags&exiting != 0 || fields[0] == "Z" || fields[0] == "X" {
		return true
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil || set&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}
