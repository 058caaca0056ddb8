package supervisor

import (
	"errors"
	"syscall"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// lacking reports whether a start failed because this process or the node ran out of descriptors, memory or processes: that says nothing about the plugin, and is over when there are some again. What the plugin
// may have run out of because of a limit of its own is its own fault.
func lacking(err error, own *policy.ResourceLimits) bool {
	switch {
	case errors.Is(err, syscall.ENFILE):
		return true
	case errors.Is(err, syscall.EMFILE):
		return own.NoFile == nil
	case errors.Is(err, syscall.ENOMEM):
		return own.Memory == nil && own.AS == nil && own.Data == nil
	case errors.Is(err, syscall.EAGAIN): // of fork(2): no room for another process
		return own.PIDs == nil && own.NProc == nil
	}
	return false
}
