package main

import (
	"os"
	"path/filepath"
	"syscall"

	"go.uber.org/zap"
)

// makeAudit makes the file of the audit, and its folder, before the first plugin starts: what does not exist at a plugin's start is not kept from it. The audit itself
// makes what is missing when it first writes, and reports what keeps it from that. A disk that does not answer keeps nobody waiting.
func makeAudit(path string, log *zap.Logger) {
	briefly(func() {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			var f *os.File
			if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600); err == nil {
				err = f.Close()
			}
		}
		if err != nil {
			log.Warn("the audit's file is not there, and so not kept from plugins", zap.Error(err))
		}
	})
}
