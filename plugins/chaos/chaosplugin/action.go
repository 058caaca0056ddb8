package chaosplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/plugins"
)

const (
	defaultFlood    = 100_000
	defaultExitCode = 1
	// defaultMany is how many updates, descriptors or MiB there are when nothing is said.
	defaultMany = 100
	floodLine   = 99
	// oversize is more than ttrpc's limit of 4 MiB a message.
	oversize = 5 << 20
)

// action is a parsed action: a verb and what belongs to it.
type action struct {
	verb, text string
	number     int
	delay      time.Duration
}

// verbs are all the actions; an argument is allowed after those with true.
func verbs() map[string]bool {
	return map[string]bool{
		"none": false, "hang": false, "slow": true, "error": true, "status": true, "deadline": false, "reject": true,
		"not-interested": true, "panic": false, "exit": true, "kill": false, "stop": false, "flood": true, "garbage": false,
		"close": false, "oversize": false, "forbidden": false, "conflict": false, "dump": false,
		"abort": false, "pause": true, "half": false, "foreign": true, "empty": false, "updates": true, "inside": false, "fdleak": true,
		"fork": false, "eat": true, "version": false, "clock": false,
	}
}

func parseAction(text string) (action, error) {
	verb, arg, hasArg := strings.Cut(text, ":")
	takesArg, ok := verbs()[verb]
	if !ok {
		return action{}, fmt.Errorf("action %q is unknown", text)
	}
	if hasArg && !takesArg {
		return action{}, fmt.Errorf("action %q takes no argument", verb)
	}
	a := action{verb: verb, text: arg}
	var err error
	switch verb {
	case "slow", "pause":
		a.delay, err = time.ParseDuration(arg)
	case "exit":
		a.number, err = number(arg, defaultExitCode)
	case "flood":
		a.number, err = number(arg, defaultFlood)
	case "updates", "fdleak", "eat":
		a.number, err = number(arg, defaultMany)
	case "status":
		a.number, err = code(arg)
	case "not-interested":
		if a.text == "" {
			a.text = string(plugins.Container)
		}
		if a.text != string(plugins.Container) && a.text != string(plugins.Pod) {
			err = errors.New("use pod or container")
		}
	}
	if err != nil {
		return action{}, fmt.Errorf("action %q: %w", text, err)
	}
	return a, nil
}

func number(arg string, def int) (int, error) {
	if arg == "" {
		return def, nil
	}
	return strconv.Atoi(arg)
}

// code reads a gRPC status code by its name or number.
func code(arg string) (int, error) {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if arg == c.String() || arg == strconv.Itoa(int(c)) {
			return int(c), nil
		}
	}
	return 0, errors.New("use the name of a gRPC status code, like Unavailable")
}

// do carries out what can be done anywhere. Its error is the handler's.
func (a action) do() error {
	switch a.verb {
	case "hang":
		hang()
	case "slow":
		time.Sleep(a.delay) //nolint:forbidigo // being slow is the purpose
	case "error":
		return errors.New("chaos: " + a.text)
	case "status":
		return status.Error(codes.Code(a.number), "chaos") //nolint:gosec // parsed from the closed set of codes
	case "deadline":
		return context.DeadlineExceeded
	case "reject":
		return plugins.Reject("chaos: " + a.text)
	case "not-interested":
		return plugins.NotInterested(plugins.Scope(a.text))
	case "panic":
		panic("chaos: as told")
	case "exit":
		os.Exit(a.number) //nolint:forbidigo // exiting is the purpose
	case "kill":
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	case "stop":
		return unix.Kill(os.Getpid(), unix.SIGSTOP)
	case "abort":
		return unix.Kill(os.Getpid(), unix.SIGABRT)
	case "pause":
		return pause(a.delay)
	case "clock":
		return unix.Kill(os.Getppid(), unix.SIGUSR2)
	case "fdleak":
		return leakDescriptors(a.number)
	case "fork":
		return fork()
	case "eat":
		return eat(a.number)
	case "flood":
		line := strings.Repeat("x", floodLine)
		for range a.number {
			fmt.Fprintln(os.Stderr, line)
		}
	case "garbage":
		return eachNRISocket(func(fd int) error {
			_, err := unix.Write(fd, slices.Repeat([]byte{0xff}, 1<<10))
			return err
		})
	case "half":
		return eachNRISocket(func(fd int) error {
			_, err := unix.Write(fd, halfFrame())
			return err
		})
	case "oversize": // where the answer has no room for data, the error is too large
		return errors.New(strings.Repeat("x", oversize))
	case "close":
		return eachNRISocket(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RDWR) })
	}
	return nil
}

// hang never returns. It is no channel without a sender: Go would call that a deadlock, and end the process.
func hang() {
	for {
		time.Sleep(time.Hour) //nolint:forbidigo // hanging is the purpose
	}
}

// eachNRISocket calls f for the descriptor of the NRI connection that the starter handed over: the only unix socket here
// without a name at either end.
func eachNRISocket(f func(fd int) error) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || !unnamedSocket(fd) {
			continue
		}
		found = true
		if err := f(fd); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("chaos: found no NRI connection that was handed over")
	}
	return nil
}

func unnamedSocket(fd int) bool {
	local, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return false
	}
	l, okLocal := local.(*unix.SockaddrUnix)
	p, okPeer := peer.(*unix.SockaddrUnix)
	return okLocal && okPeer && unnamed(l) && unnamed(p)
}

// unnamed tells whether the address is that of a socket without a name, which package unix writes like an abstract name of no bytes.
func unnamed(a *unix.SockaddrUnix) bool { return a.Name == "" || a.Name == "@" }
