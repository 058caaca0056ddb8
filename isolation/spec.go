package isolation

import (
	"context"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// Protocol is how the supervisor and a plugin process find each other. It is a closed set.
type Protocol string

const (
	// GoPlugin is a plugin built with the SDK: go-plugin's handshake on stdout, a control service, and NRI on descriptor 3.
	GoPlugin Protocol = "go-plugin"
	// NRI is an unmodified NRI plugin: NRI on descriptor 3 and nothing else.
	NRI Protocol = "nri"
)

// String returns the protocol as it is written in a manifest.
func (p Protocol) String() string { return string(p) }

// Spec says what to start and how. The zero value is not usable: Name, Index, Path, Protocol and RunDir are required.
// Start does not keep or change the slices.
type Spec struct {
	// Name and Index are the NRI name and index, handed to the plugin as NRI_PLUGIN_NAME and NRI_PLUGIN_IDX.
	Name, Index string
	// Path is the absolute path of the executable; Args are its arguments without argv[0].
	Path string
	Args []string
	// Env is the complete extra environment as KEY=VALUE. Nothing is inherited from this process; PATH and HOME have
	// defaults that Env may replace. Names that start with NRI_PLUGIN_, PLUGIN_ or NRI_SUPERVISOR_ are refused.
	Env []string
	// SHA256 pins the executable, 64 hexadecimal digits; empty means no pin. What was hashed is what is executed.
	SHA256 string
	// CheckPath refuses what Path leads to, the path of the opened file without links; nil: whatever it is will do. That of an interpreter is not asked for.
	CheckPath func(path string) error
	// Protocol is GoPlugin or NRI.
	Protocol Protocol
	// RunDir is the supervisor's run directory, an absolute path. The incarnation gets a private folder (mode 0700) at
	// RunDir/plugins/NAME/ID, which is its working directory and HOME and is removed when it ends.
	RunDir string
	// Host is what all incarnations share. Nil: the process gets no cgroup and is executed directly, without Confine; of a script, its interpreter then opens the path.
	Host *Host
	// Confine says what the process may use and do.
	Confine Confinement
	// Silent are the places of mounts that do not answer: nothing there is looked at, and the plugin does not have them.
	Silent []string
	// LogLevel is the level the plugin should log at: trace, debug, info, warn or error; empty means info. Only plugins
	// built with the SDK know it.
	LogLevel string
	// OnUpdate receives updates of containers that the plugin asks for on its own, and returns those that failed. It
	// must not block for long: the plugin waits for it. Nil means that such updates are refused.
	OnUpdate func(ctx context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error)
	// OnOutput receives each line of the plugin's output after cutting and rate limiting. It must not block: the plugin
	// stops at its next write when the pipe is full. Nil means that output is only kept for Exit.LastOutput.
	OnOutput func(Line)
	// OnOOM is told how many processes of the incarnation the kernel killed for want of memory while the plugin itself went on, a second or two after it was
	// done. It must not block. It is not called after Instance.Done is closed. A plugin that is killed itself ends with ReasonOOM. Nil: nobody is told.
	OnOOM func(killed int)
	// StopGrace bounds the phases of Stop. The zero value means the documented defaults.
	StopGrace StopGrace
}

// StopGrace bounds the phases of stopping. A zero field means its default, a negative one skips the phase.
type StopGrace struct {
	// Shutdown bounds NRI's Shutdown call, the control service's Stop, and the exit that they should cause. Default 2 s.
	Shutdown time.Duration
	// Term bounds the exit after SIGTERM to the group. Default 2 s.
	Term time.Duration
	// Kill bounds the exit after SIGKILL to the group. Default 2 s.
	Kill time.Duration
	// Drain bounds how long output is still read after the process is gone, when somebody else holds its pipes. Default 500 ms.
	Drain time.Duration
}

// Stream names an output of a process. It is a closed set.
type Stream string

const (
	// Stdout is descriptor 1, after the handshake line.
	Stdout Stream = "stdout"
	// Stderr is descriptor 2.
	Stderr Stream = "stderr"
)

// String returns the name of the stream.
func (s Stream) String() string { return string(s) }

// Line is one line of a plugin's output. Text is valid UTF-8 without control characters (except tab): others are escaped.
type Line struct {
	// PID is the process that the line is from, or whose child wrote it.
	PID    int
	Stream Stream
	// Level is trace, debug, info, warn or error if the line said so (hclog's or slog's JSON, logfmt, a Go panic), else empty.
	Level string
	Text  string
	// Truncated is set if the line was longer than MaxLine; the rest of it was dropped.
	Truncated bool
	// Dropped counts the lines of this stream that the rate limit dropped since the previous Line. A Line with an
	// empty Text and Dropped above zero is a report only.
	Dropped int
}

const (
	// MaxLine is the most bytes of one line of output that are kept, before escaping: journald's default is 48 KiB,
	// syslog's 8 KiB; 16 KiB holds a Go panic message and a go-plugin handshake with its certificate.
	MaxLine = 16 << 10
	// LineRate is how many lines of each stream reach OnOutput in a second, LineBurst how many at once: a stack trace of
	// some hundred lines gets through.
	LineRate = 200
	// LineBurst is the size of the bucket that LineRate refills.
	LineBurst = 500
	// WriteStall is how long one write to a plugin's NRI connection may be stuck before the connection is closed: the
	// peer stopped reading. Neither ttrpc nor NRI's mux has such a bound.
	WriteStall = 5 * time.Second
)
