package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/filetrust"
)

// binary is an executable that was checked.
type binary struct {
	path   string   // what to execute when there is no file
	file   *os.File // what was checked; nil for a script that is neither pinned nor to be executed by the stage
	script bool     // its interpreter opens it again
	// byPath tells that the interpreter opens it by its path, to which nobody but root and this user can put another file.
	byPath bool
}

func (b binary) close() {
	if b.file != nil {
		_ = b.file.Close() // read only
	}
}

// command executes it without the stage.
func (b binary) command() *exec.Cmd {
	switch {
	case b.file == nil:
		return &exec.Cmd{Path: b.path}
	case b.script: // its interpreter finds it as the descriptor behind the connection
		return &exec.Cmd{Path: "/proc/self/fd/4", ExtraFiles: []*os.File{b.file}}
	default:
		return &exec.Cmd{Path: fmt.Sprintf("/proc/self/fd/%d", b.file.Fd())}
	}
}

// openBinary checks that path is a program that may be executed, and, with a pin, that its content is the pinned one.
//
// What is executed is what was checked: with a pin a sealed copy in memory, which nobody can write to any more; else the open file.
// A script that is not pinned is read by its interpreter under its own name, by which many find what lies beside them; so that it cannot be another one by
// then, either nobody else can change what the path leads to, or the interpreter is given the open file.
func openBinary(s *Spec) (binary, error) {
	path, c := s.Path, &s.Confine
	if !filepath.IsAbs(path) {
		return binary{}, fmt.Errorf("check %q: not an absolute path", path)
	}
	if c.TrustFile {
		if err := checkTrust(path); err != nil {
			return binary{}, err
		}
		if err := checkLoaded(s.Env); err != nil {
			return binary{}, err
		}
	}
	f, err := openProgram(path)
	if err != nil {
		return binary{}, err
	}
	bin, err := s.checked(f)
	if err != nil || bin.file != f {
		_ = f.Close() // read only
	}
	return bin, err
}

// checkTrust refuses a path if others than root and this user can change what it leads to.
func checkTrust(path string) error {
	_, err := filetrust.Check(path)
	if weak, ok := errors.AsType[*filetrust.Weakness](err); ok {
		return fmt.Errorf("check %q: %w: %s, or set fileTrust: off", path, weak, weak.Remedy())
	}
	if err != nil {
		return fmt.Errorf("check %q: %w", path, pathCause(err))
	}
	return nil
}

// checkLoaded refuses an environment that makes the program load what others can change.
func checkLoaded(env []string) error {
	err := filetrust.CheckEnviron(env)
	if weak, ok := errors.AsType[*filetrust.Weakness](err); ok {
		return fmt.Errorf("check what the environment makes it load: %w: %s, or set fileTrust: off", err, weak.Remedy())
	}
	if err != nil {
		return fmt.Errorf("check what the environment makes it load: %w, or set fileTrust: off", err)
	}
	return nil
}

// CheckProgram says why Start would refuse what the path leads to, as far as that can be seen beforehand: what is no program, or can be changed by others, or would
// gain privileges by being executed; and the same of the interpreters of a script. env is as in Spec.Env. It executes nothing; safe for concurrent use.
func (c *Confinement) CheckProgram(path string, env []string) error {
	return c.checkProgram(path, env, maxInterpreters)
}

// openProgram opens a file that is to be executed. A file that may be executed and not read is opened as a mere path.
func openProgram(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		f, err = os.OpenFile(path, unix.O_PATH, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("check %q: %w", path, pathCause(err))
	}
	return f, nil
}

// checked looks at the open program, and copies it if it is pinned.
func (s *Spec) checked(f *os.File) (binary, error) {
	c := &s.Confine
	if err := s.checkPath(f); err != nil {
		return binary{}, err
	}
	if err := c.checkFile(f); err != nil {
		return binary{}, err
	}
	if isScript(f) {
		if err := c.checkInterpreter(f, s.Env, maxInterpreters); err != nil {
			return binary{}, err
		}
	}
	switch {
	case s.SHA256 != "":
		sealed, err := sealPinned(f, s.SHA256)
		if err != nil {
			return binary{}, fmt.Errorf("check %q: %w", s.Path, err)
		}
		return binary{file: sealed, script: isScript(sealed)}, nil
	case s.Host == nil && isScript(f): // its interpreter opens it by its path
		return binary{path: s.Path}, nil
	default:
		return binary{path: s.Path, file: f, script: isScript(f), byPath: c.TrustFile}, nil
	}
}

// checkPath asks whether what the path leads to may be executed.
func (s *Spec) checkPath(f *os.File) error {
	if s.CheckPath == nil {
		return nil
	}
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err == nil {
		err = s.CheckPath(target)
	}
	if err != nil {
		return fmt.Errorf("check %q: %w", s.Path, pathCause(err))
	}
	return nil
}

// checkFile refuses what cannot be executed, and what would gain privileges by being executed, which also clears the parent-death signal.
func (c *Confinement) checkFile(f *os.File) error {
	path := f.Name()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("check %q: %w", path, pathCause(err))
	}
	mode := info.Mode()
	switch {
	case mode.IsDir():
		return fmt.Errorf("check %q: a directory, not a program", path)
	case !mode.IsRegular():
		return fmt.Errorf("check %q: not a regular file (%s)", path, mode.Type())
	case mode&0o111 == 0:
		return fmt.Errorf("check %q: not executable (mode %#o): chmod +x it", path, mode.Perm())
	case c.Setuid:
		return nil
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return fmt.Errorf("check %q: setuid or setgid programs are refused: chmod ug-s it", path)
	}
	if n, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), "security.capability", nil); err == nil && n > 0 {
		return fmt.Errorf("check %q: programs with file capabilities are refused: setcap -r it", path)
	}
	return nil
}

// maxInterpreters is how many scripts may interpret each other, as the kernel has it, execve(2).
const maxInterpreters = 4

func isScript(f *os.File) bool {
	head := make([]byte, 2)
	n, err := f.ReadAt(head, 0)
	return err == nil && n == 2 && string(head) == "#!"
}

// checkInterpreter holds the program that reads a script to the rules for programs, and, if that is env, the one that env looks up.
func (c *Confinement) checkInterpreter(script *os.File, env []string, more int) error {
	programs, line, err := interpreters(script, env)
	if err != nil {
		return fmt.Errorf("check %q: %w", script.Name(), err)
	}
	if len(programs) == 0 || more == 0 {
		return fmt.Errorf("check %q: interpreter %q: write an absolute path behind #!, of a program that is not a script of a script", script.Name(), line)
	}
	for _, path := range programs {
		if err := c.checkProgram(path, env, more-1); err != nil {
			return fmt.Errorf("check interpreter of %q: %w", script.Name(), err)
		}
	}
	return nil
}

func (c *Confinement) checkProgram(path string, env []string, more int) error {
	if c.TrustFile {
		if err := checkTrust(path); err != nil {
			return err
		}
	}
	f, err := openProgram(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	if err := c.checkFile(f); err != nil || !isScript(f) {
		return err
	}
	return c.checkInterpreter(f, env, more)
}

// pathCause removes the path from an error that is going to be wrapped with it.
func pathCause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
