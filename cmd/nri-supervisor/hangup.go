package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.uber.org/zap"
)

// heedHangups takes SIGHUP, by which operators ask services for a reload and which ends a process that does not take it: each one is a warning in the log, and nothing
// else. The function that it returns ends that.
func heedHangups(log *zap.Logger) (stop func()) {
	hangups, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	var warner sync.WaitGroup
	warner.Go(func() {
		for {
			select {
			case <-hangups:
				log.Warn("configuration is not reloaded by this version: restart the service")
			case <-over:
				return
			}
		}
	})
	return func() {
		signal.Stop(hangups)
		close(over)
		warner.Wait()
	}
}
