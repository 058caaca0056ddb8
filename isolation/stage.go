package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"
)

// Descriptors of the stage, behind the plugin's NRI connection at 3. None of them reaches the plugin.
const (
	stageOrder  = 4 // the order, to be read
	stageReport = 5 // reports, closed by the execution of the plugin
	stageBinary = 6 // the executable
	// stageOwnFiles is the plugin's own file system, if the order says that there is one.
	stageOwnFiles = 7
)

// order is what the stage has to do. It is this package's own wire format: both ends are the same executable.
type order struct {
	Path string   // argv[0], and what the interpreter of a script may open
	Args []string // with argv[0]
	Env  []string
	// Script is set if the executable is opened again by its interpreter, ByPath if under its own name.
	Script, ByPath bool
	// Parent is the supervisor's process id.
	Parent int
	// Join are v1 cgroups.
	Join []string
	// NoFile is the limit of open files, 0 for the default.
	NoFile uint64
	// RLimits are further limits.
	RLimits []RLimit
	// OOMScore is the value of oom_score_adj.
	OOMScore int
	// Dir is the incarnation's directory.
	Dir string
	// OwnFiles tells that a file system to be mounted there comes along.
	OwnFiles bool

	Optional map[Part]bool

	User            *User
	CutCapabilities bool
	Capabilities    uint64 // a capSet: those to keep of the ones that the supervisor has
	Required        uint64 // a capSet: those that it must have
	NoNewPrivs      bool
	Seccomp         bool
	Shield          bool
	NoNetwork       bool

	Mounts     bool
	Hide       []string
	PrivateTmp []string
	Protect    []string
	// Silent are the places of mounts that do not answer.
	Silent             []string
	Devices            []string // those that can be opened; nil: all
	ConfineFiles       bool
	Rules              []fileRule
	Readable, Writable []string
	// Written are the paths in which other plugins may write.
	Written []string

	// settled are the paths of Readable and Writable as openShown has found them.
	settled map[string]string
	// shared are those of Writable and Written, see findShared.
	shared []string
}

// fileRule allows the use of a path.
type fileRule struct {
	Path  string
	Write bool
	// System is set if the path need not exist.
	System bool
}

// report is one message of the stage.
type report struct {
	// Reduced names a part of the profile that this host cannot apply.
	Reduced string `json:",omitempty"`
	// Failed is why the plugin was not executed, Phase where.
	Failed string `json:",omitempty"`
	Phase  Phase  `json:",omitempty"`
	// Errno is what the kernel said, 0 if it was not asked.
	Errno unix.Errno `json:",omitempty"`
}

// stageError is the stage's report that the plugin was not executed.
type stageError struct {
	phase Phase
	text  string
	errno unix.Errno
}

func (e *stageError) Error() string { return e.text }

// Unwrap returns what the kernel said; nil if it was not asked.
func (e *stageError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// stage is the supervisor's side of one stage. Its methods do nothing on nil.
type stage struct {
	reports          *os.File
	orders, reportsW *os.File // the process's
}

// newStage prepares the execution of a plugin by the stage: the same process becomes the plugin.
func (i *Instance) newStage(bin binary, env []string) (*exec.Cmd, *stage, error) {
	o, err := i.order(bin, env)
	if err != nil {
		return nil, nil, err
	}
	orders, err := orderFile(o)
	if err != nil {
		return nil, nil, err
	}
	reports, reportsW, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, orders.Close())
	}
	cmd := helperCommand(i.spec.Host.helper, helperStage, i.spec.Name)
	cmd.ExtraFiles = []*os.File{orders, reportsW, bin.file}
	if i.dir.own != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, i.dir.own)
	}
	return cmd, &stage{reports: reports, orders: orders, reportsW: reportsW}, nil
}

// started closes what belongs to the process alone.
func (s *stage) started() {
	if s != nil {
		_ = s.orders.Close()
		_ = s.reportsW.Close()
	}
}

func (s *stage) close() error {
	if s == nil {
		return nil
	}
	return s.reports.Close()
}

// awaitStage returns when the plugin is executed, or why it is not. The end of ctx ends the process.
func (i *Instance) awaitStage(ctx context.Context, s *stage, p *process) error {
	defer context.AfterFunc(ctx, func() { p.signal(unix.SIGKILL) })()
	reduced, err := readReports(s.reports)
	i.mu.Lock()
	i.reduced = append(i.reduced, reduced...)
	i.mu.Unlock()
	return errors.Join(err, s.close())
}

// order is what the stage has to do for this incarnation.
func (i *Instance) order(bin binary, env []string) (order, error) {
	c := &i.spec.Confine
	granted, err := parseCapabilities(c.Capabilities)
	if err != nil {
		return order{}, err
	}
	required, err := parseCapabilities(c.Required)
	if err != nil {
		return order{}, err
	}
	o := order{
		Path: i.spec.Path, Args: append([]string{i.spec.Path}, i.spec.Args...), Env: i.environment(env), Script: bin.script, ByPath: bin.byPath,
		Parent: os.Getpid(), NoFile: c.NoFile, RLimits: c.RLimits, OOMScore: oomScore(c.OOMScore), Dir: i.dir.path, OwnFiles: i.dir.own != nil, Optional: map[Part]bool{},
		User: i.user, CutCapabilities: c.CutCapabilities, Capabilities: uint64(granted), Required: uint64(required),
		NoNewPrivs: c.NoNewPrivs || c.Seccomp || c.Shield || c.ConfineFiles, Seccomp: c.Seccomp,
		Shield: c.Shield && !granted.has(unix.CAP_SYS_ADMIN), NoNetwork: c.NoNetwork,
		Mounts: c.mounts(), Hide: c.Hide, PrivateTmp: c.PrivateTmp, Protect: c.Protect, Silent: i.spec.Silent,
		ConfineFiles: c.ConfineFiles, Rules: c.rules(i.dir.path), Readable: c.ReadOnly, Writable: c.ReadWrite, Written: c.Written,
	}
	if c.NoDevices {
		o.Devices = slices.Concat(systemDevices(), c.ReadOnly, c.ReadWrite)
	}
	for _, p := range c.Optional {
		o.Optional[p] = true
	}
	if i.leaf != nil {
		o.Join = i.leaf.v1
	}
	return o, nil
}

// orderFile holds the order in memory: a pipe would block if it is long.
func orderFile(o order) (*os.File, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode order: %w", err)
	}
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file for the order: %w", err)
	}
	f := os.NewFile(uintptr(fd), "order")
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(fmt.Errorf("write order: %w", err), f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("write order: %w", err), f.Close())
	}
	return f, nil
}

// readReports reads what the stage says until the plugin is executed, or the process has ended.
func readReports(r io.Reader) (reduced []string, err error) {
	const limit = 64 << 10 // a few lines
	dec := json.NewDecoder(io.LimitReader(r, limit))
	for {
		var rep report
		switch derr := dec.Decode(&rep); {
		case errors.Is(derr, io.EOF):
			return reduced, err
		case derr != nil:
			return reduced, errors.Join(err, fmt.Errorf("read reports of the stage: %w", derr))
		case rep.Failed != "":
			err = &stageError{phase: rep.Phase, text: rep.Failed, errno: rep.Errno}
		case rep.Reduced != "":
			reduced = append(reduced, rep.Reduced)
		}
	}
}
