//go:build root

package isolation_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attempts are what the hostile plugin can try. Each is bounded: nothing here can harm the machine if it succeeds.
func attempts() map[string]func(arg string) (string, error) {
	return map[string]func(string) (string, error){
		"nothing":  func(string) (string, error) { return "", nil },
		"orphan":   tryOrphan,
		"fork":     tryFork,
		"child":    tryInChild,
		"memory":   tryMemory,
		"files":    tryFiles,
		"rlimit":   tryRlimit,
		"lock":     tryLock,
		"spin":     trySpin,
		"cgroups":  func(string) (string, error) { return readOwn("/proc/self/cgroup") },
		"oomscore": func(string) (string, error) { return readOwn("/proc/self/oom_score_adj") },
		"limits":   func(string) (string, error) { return readOwn("/proc/self/limits") },
		"fds":      tryFds,
		"status":   func(string) (string, error) { return readOwn("/proc/self/status") },
		"write":    func(path string) (string, error) { return "", os.WriteFile(path, []byte("x"), 0o600) },
		"read":     func(path string) (string, error) { _, err := os.ReadFile(path); return "", err },
		"list":     tryList,
		"connect":  tryConnect,
		"tcp": func(address string) (string, error) {
			conn, err := net.DialTimeout("tcp", address, patience)
			if err != nil {
				return "", err
			}
			return "", conn.Close()
		},
		"signal": func(arg string) (string, error) {
			return "", onProcess(arg, func(pid int) error { return unix.Kill(pid, 0) })
		},
		"ptrace":      func(arg string) (string, error) { return "", onProcess(arg, seize) },
		"environ":     func(pid string) (string, error) { _, err := os.ReadFile("/proc/" + pid + "/environ"); return "", err },
		"memoryof":    tryMemoryOf,
		"root":        func(arg string) (string, error) { return tryList("/proc/" + arg) },
		"mount":       func(dir string) (string, error) { return "", unix.Mount("tmpfs", dir, "tmpfs", 0, "") },
		"umount":      func(dir string) (string, error) { return "", unix.Unmount(dir, unix.MNT_DETACH) },
		"become":      func(arg string) (string, error) { return "", onProcess(arg, syscall.Setuid) },
		"handle":      tryHandle,
		"unshare":     func(string) (string, error) { return "", unix.Unshare(unix.CLONE_NEWUTS) },
		"mknod":       func(path string) (string, error) { return "", unix.Mknod(path, unix.S_IFCHR|0o600, 1<<8|3) },
		"network":     tryNetwork,
		"flood":       tryFlood,
		"closeoutput": tryCloseOutput,
		"open": func(path string) (string, error) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return "", err
			}
			return "", f.Close()
		},
		"migrate":   func(procs string) (string, error) { return "", os.WriteFile(procs, []byte("0"), 0) },
		"call":      tryCall,
		"chroot":    func(dir string) (string, error) { return "", unix.Chroot(dir) },
		"follow":    func(link string) (string, error) { _, err := os.Readlink(link); return "", err },
		"userspace": tryUserNamespace,
		"abstract":  func(name string) (string, error) { return tryConnect("@" + name) },
		"throttle":  tryThrottle,
		"link": func(arg string) (string, error) {
			target, link, _ := strings.Cut(arg, "@")
			return "", os.Symlink(target, link)
		},
		"folder": func(dir string) (string, error) { return "", os.Mkdir(dir, 0o755) },
		"move": func(name string) (string, error) {
			return "", errors.Join(os.WriteFile(name, nil, 0o600), os.Mkdir(name+"-folder", 0o700), os.Rename(name, name+"-folder/"+name))
		},
		"who": func(string) (string, error) { return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()), nil },
		"cwd": func(path string) (string, error) { return "", os.WriteFile(path, nil, 0o600) },
		"swap": func(dir string) (string, error) {
			return "", errors.Join(os.Rename(dir, dir+"-moved"), os.Rename(dir+"-moved", dir))
		},
		"socket": func(family string) (string, error) {
			return "", onProcess(family, func(n int) error {
				fd, err := unix.Socket(n, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				if errors.Is(err, unix.EPERM) {
					return err
				}
				_ = unix.Close(fd) // the kernel was asked, whether it has the family or not
				return nil
			})
		},
		"fill": tryFill,
		"many": tryMany,
		"segment": func(arg string) (string, error) {
			return "", onProcess(arg, func(id int) error {
				_, err := unix.SysvShmCtl(id, unix.IPC_STAT, &unix.SysvShmDesc{})
				return err
			})
		},
	}
}

func readOwn(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

// tryOrphan leaves a grandchild in a session of its own that ignores SIGTERM and holds the output, and returns its id.
func tryOrphan(string) (string, error) {
	cmd := exec.Command("/proc/self/exe", orphanMaker)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var pid int
	_, err = fmt.Fscan(out, &pid)
	return strconv.Itoa(pid), err
}

// makeOrphan is the child in between, which ends.
func makeOrphan() int {
	cmd := exec.Command("/proc/self/exe", sleeper)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 1
	}
	fmt.Println(cmd.Process.Pid)
	return 0
}

// sleep is a process that does nothing for five minutes, and does not mind SIGTERM.
func sleep() int {
	signal.Ignore(unix.SIGTERM)
	<-time.After(5 * time.Minute)
	return 0
}

// tryInChild lets a child make the attempt, and returns how that ended.
func tryInChild(words string) (string, error) {
	out, err := exec.Command("/proc/self/exe", attempter, words).Output()
	return strings.TrimSpace(string(out)), err
}

// tryFork starts up to n sleepers and returns how many it got.
func tryFork(arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	for i := range n {
		cmd := exec.Command("/proc/self/exe", sleeper)
		if err := cmd.Start(); err != nil {
			return "", fmt.Errorf("after %d: %w", i, err)
		}
	}
	return "", nil
}

// tryMemory touches that many MiB.
func tryMemory(arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	mem, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return "", err
	}
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1
	}
	return "", unix.Munmap(mem)
}

// tryFiles opens that many files.
func tryFiles(arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close()
		}
	}()
	for range n {
		f, err := os.Open("/dev/null")
		if err != nil {
			return "", err
		}
		open = append(open, f)
	}
	return "", nil
}

// tryRlimit raises the hard limit of open files.
func tryRlimit(arg string) (string, error) {
	n, err := strconv.ParseUint(arg, 10, 64)
	if err != nil {
		return "", err
	}
	return "", syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n})
}

// tryLock locks that many KiB of memory.
func tryLock(arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	mem, err := unix.Mmap(-1, 0, n<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return "", err
	}
	return "", errors.Join(unix.Mlock(mem), unix.Munmap(mem))
}

// trySpin uses the processor for that long and returns how much of it it got, in milliseconds.
func trySpin(arg string) (string, error) {
	d, err := time.ParseDuration(arg)
	if err != nil {
		return "", err
	}
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		return "", err
	}
	turns := 0
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.Gosched()
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		return "", err
	}
	_ = turns
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	return fmt.Sprint(time.Duration(used).Milliseconds()), nil
}

// tryFds lists the open descriptors.
func tryFds(string) (string, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "", err
	}
	var out []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		out = append(out, e.Name()+"="+target)
	}
	return strings.Join(out, " "), nil
}

func tryList(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return "[" + strings.Join(names, " ") + "]", nil
}

func tryConnect(path string) (string, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return "", err
	}
	return "", conn.Close()
}

// tryHandle opens a file for writing by its number, through another folder of its file system.
func tryHandle(arg string) (string, error) {
	path, via, _ := strings.Cut(arg, "@")
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return "", err
	}
	folder, err := os.Open(via)
	if err != nil {
		return "", err
	}
	fd, err := unix.OpenByHandleAt(int(folder.Fd()), handle, unix.O_WRONLY|unix.O_CLOEXEC)
	err = errors.Join(err, folder.Close())
	if err == nil {
		err = unix.Close(fd)
	}
	return "", err
}

func onProcess(arg string, do func(pid int) error) error {
	pid, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	return do(pid)
}

// seize begins to trace a process, which does not stop it. The end of the thread ends it.
func seize(pid int) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
		if errno != 0 {
			done <- errno
			return
		}
		done <- nil
	}()
	return <-done
}

// tryMemoryOf reads from the memory of a process, where its program begins.
func tryMemoryOf(pid string) (string, error) {
	maps, err := os.ReadFile("/proc/" + pid + "/maps")
	if err != nil {
		return "", err
	}
	start, err := strconv.ParseInt(strings.Split(string(maps), "-")[0], 16, 64)
	if err != nil {
		return "", err
	}
	f, err := os.Open("/proc/" + pid + "/mem")
	if err != nil {
		return "", err
	}
	_, err = f.ReadAt(make([]byte, 4), start)
	return "", errors.Join(err, f.Close())
}

func tryNetwork(string) (string, error) {
	all, err := net.Interfaces()
	var names []string
	for _, i := range all {
		names = append(names, i.Name+"="+strings.Split(i.Flags.String(), "|")[0])
	}
	return strings.Join(names, " "), err
}

// tryFlood writes 64 MiB as fast as it is read: short lines, lines of 1 MiB, or bytes that are no text.
func tryFlood(kind string) (string, error) {
	block := bytes.Repeat([]byte("all work and no play makes a dull plugin\n"), 1<<20/41)
	switch kind {
	case "long":
		block = append(bytes.Repeat([]byte("y"), 1<<20), '\n')
	case "binary":
		block = bytes.Repeat([]byte{0x1b, 0xff, 0x00, 0x80}, 1<<18)
	}
	for range 64 {
		if _, err := os.Stderr.Write(block); err != nil {
			return "", err
		}
	}
	return "", nil
}

func tryCloseOutput(string) (string, error) {
	return "", errors.Join(os.Stdout.Close(), os.Stderr.Close())
}
