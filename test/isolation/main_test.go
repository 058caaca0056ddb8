//go:build root

package isolation_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/plugins"
	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

const (
	// helper makes this test binary one of package isolation's helpers.
	helper = "helper"
	// hostile makes it a plugin that does what containers' names say.
	hostile = "hostile"
	// builtWithTheSDK makes it one with a control service.
	builtWithTheSDK = "sdk"
	// stays makes a hostile plugin outlive its connection.
	stays = "stays"
	// host makes it a supervisor.
	hostMode = "host"
	// unprivileged makes it a supervisor that is not root.
	unprivileged = "unprivileged"
	// orphanMaker and sleeper make it a child and a grandchild of the plugin.
	orphanMaker, sleeper = "orphan-maker", "sleeper"
	// lacking makes it a supervisor on a kernel that lacks something.
	lacking = "lacking"
	// attempter makes it a child that makes an attempt.
	attempter = "attempter"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case helper:
			os.Exit(isolation.RunHelper(os.Args[2:]))
		case hostile:
			os.Exit(beHostile(os.Args[2:]))
		case builtWithTheSDK:
			os.Exit(beBuiltWithTheSDK())
		case orphanMaker:
			os.Exit(makeOrphan())
		case lacking:
			os.Exit(startWithout(os.Args[2:]))
		case twice:
			os.Exit(mountTwice(os.Args[2]))
		case attempter:
			fmt.Println(attempt(os.Args[2]))
			os.Exit(0)
		case sleeper:
			os.Exit(sleep())
		case unprivileged:
			os.Exit(beUnprivileged(os.Args[2], os.Args[3]))
		case hostMode:
			beASupervisor(os.Args[2:])
			os.Exit(1) // it does not end by itself
		}
	}
	if inGuest() {
		beInit(m)
		return
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests need root: what they show is what root can do")
		os.Exit(1)
	}
	os.Exit(harness.Main(m))
}

// hostilePlugin is a stock NRI plugin that makes one attempt for each container that it is told of, and answers with what came of it.
type hostilePlugin struct{}

func beHostile(args []string) int {
	staying := false
	for _, a := range args {
		if a == stays {
			staying = true
			signal.Ignore(syscall.SIGPIPE) // nobody reads what NRI's stub says at the end
			continue
		}
		if out := attempt(a); out != "ok" {
			fmt.Println(a, out)
		}
	}
	st, err := stub.New(hostilePlugin{}, stub.WithOnClose(func() {
		if !staying {
			os.Exit(0)
		}
	}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err = st.Run(context.Background())
	if staying {
		return sleep()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// CreateContainer makes the attempt that the container's name is.
func (hostilePlugin) CreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	adjust := &api.ContainerAdjustment{}
	adjust.AddEnv("RESULT", attempt(c.GetName()))
	return adjust, nil, nil
}

// attempt does what the words say and returns "ok", what was found out, or why it was not possible.
func attempt(words string) string {
	verb, arg, _ := strings.Cut(words, ":")
	do, ok := attempts()[verb]
	if !ok {
		return "no such attempt: " + verb
	}
	out, err := do(arg)
	switch {
	case err != nil:
		return "denied: " + err.Error()
	case out == "":
		return "ok"
	default:
		return out
	}
}

// beBuiltWithTheSDK is the same plugin with a control service, at a socket in its own directory.
func beBuiltWithTheSDK() int {
	plugins.Main(hostilePlugin{})
	return 0
}
