package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// heedHangups takes SIGHUP, by which operators ask services for a reload and which ends a process that does not take it: from now on, each sends one element, unless one waits
// already. The function that it returns ends that.
func heedHangups() (asked <-chan struct{}, stop func()) {
	hangups, over, ask := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{}, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var taker sync.WaitGroup
	taker.Go(func() {
		for {
			select {
			case <-hangups:
				select {
				case ask <- struct{}{}:
				default:
				}
			case <-over:
				return
			}
		}
	})
	return ask, func() {
		signal.Stop(hangups)
		close(over)
		taker.Wait()
	}
}
