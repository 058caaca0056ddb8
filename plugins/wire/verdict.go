package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// RejectCode marks an error of an NRI call, together with RejectPrefix, as a deliberate "no".
	RejectCode = codes.PermissionDenied
	// RejectPrefix is before the reason in the message.
	RejectPrefix = "rejected by plugin: "
	// NotInterestedCode marks an error, together with NotInterestedPrefix, as "leave me out from now on". It is sent to
	// nri-supervisor only, never to a plain runtime.
	NotInterestedCode = codes.Aborted
	// NotInterestedPrefix is before a NotInterestedError as JSON in the message.
	NotInterestedPrefix = "nri-supervisor.dev/not-interested: "
)

// Scope is how much of a pod a plugin is not interested in. It is a closed set; the zero value is no scope.
type Scope string

const (
	// ScopePod is the whole pod: its events and those of all its containers.
	ScopePod Scope = "pod"
	// ScopeContainer is the one container of the request.
	ScopeContainer Scope = "container"
)

// String returns the scope as it travels.
func (s Scope) String() string { return string(s) }

// RejectError is a deliberate "no" of a plugin.
type RejectError struct {
	// Reason is for the person whose container does not start.
	Reason string
}

// Error returns the reason, marked as a rejection.
func (e *RejectError) Error() string { return RejectPrefix + e.Reason }

// GRPCStatus is how the error travels.
func (e *RejectError) GRPCStatus() *status.Status { return status.New(RejectCode, e.Error()) }

// NotInterestedError says which pods and containers a plugin wants to hear no more of: Scope for the pod or
// container of the request (RunPodSandbox, CreateContainer), or the ids of some of those in a Synchronize request.
type NotInterestedError struct {
	Scope      Scope    `json:"scope,omitempty"`
	Pods       []string `json:"pods,omitempty"`
	Containers []string `json:"containers,omitempty"`
}

// Error returns the text as it travels.
func (e *NotInterestedError) Error() string {
	data, err := json.Marshal(e)
	if err != nil { // a struct of strings always encodes
		return NotInterestedPrefix + "{}"
	}
	return NotInterestedPrefix + string(data)
}

// GRPCStatus is how the error travels.
func (e *NotInterestedError) GRPCStatus() *status.Status {
	return status.New(NotInterestedCode, e.Error())
}

// Decode returns the *RejectError or *NotInterestedError that an error of an NRI call stands for, or err itself if it is an
// ordinary error. Code and prefix must both fit, so that a plugin's own use of the code is no verdict.
func Decode(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch st.Code() {
	case RejectCode:
		if reason, ok := strings.CutPrefix(st.Message(), RejectPrefix); ok {
			return &RejectError{Reason: reason}
		}
	case NotInterestedCode:
		if text, ok := strings.CutPrefix(st.Message(), NotInterestedPrefix); ok {
			var n NotInterestedError
			if jsonErr := json.Unmarshal([]byte(text), &n); jsonErr != nil {
				return fmt.Errorf("decode %q: %v: %w", st.Message(), jsonErr, err)
			}
			if n.Scope != "" && n.Scope != ScopePod && n.Scope != ScopeContainer {
				return fmt.Errorf("decode %q: unknown scope %q: %w", st.Message(), n.Scope, err)
			}
			return &n
		}
	}
	return err
}

// IsRejection tells whether err, as Decode returns it or as it came, is a deliberate rejection.
func IsRejection(err error) bool {
	_, ok := errors.AsType[*RejectError](Decode(err))
	return ok
}
