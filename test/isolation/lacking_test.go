//go:build root

package isolation_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// demands are confinements by name.
func demands(dir string) map[string]isolation.Confinement {
	standard, network := isolation.Standard([]string{dir}), isolation.None()
	network.NoNetwork = true
	unwritten := standard
	unwritten.Optional = []isolation.Part{isolation.PartSeccomp, isolation.PartCapabilities, isolation.PartMounts}
	return map[string]isolation.Confinement{
		"none": isolation.None(), "standard": standard, "strict": isolation.Strict([]string{dir}), "unwritten": unwritten, "no network": network,
		"core": {Cgroup: true},
	}
}

// startWithout starts a plugin on a kernel that does not know a system call, and says what came of it. args: the run directory, the call, the name of a confinement.
func startWithout(args []string) int {
	filter := seccomp.Filter{Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls:      []seccomp.SyscallGroup{{Names: args[1:2], Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)}},
	}}
	if err := seccomp.LoadFilter(filter); err != nil {
		fmt.Println(err)
		return 1
	}
	h, err := isolation.OpenHost(isolation.HostOptions{RunDir: args[0], Helper: []string{helper}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer h.Close()
	exe, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	i, err := isolation.Start(ctx, isolation.Spec{
		Name: "test", Index: "42", Path: exe, Args: []string{hostile}, Protocol: isolation.NRI, RunDir: args[0], Host: h, Confine: demands(args[0])[args[2]],
	})
	if err != nil {
		fmt.Println("refused:", err)
		return 0
	}
	fmt.Println("runs without", i.Reduced())
	i.Kill(isolation.ReasonStopped)
	return 0
}

func TestWhereTheKernelLacksWhatIsAskedForThePluginDoesNotStartAndSaysSo(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ call, demand, want string }{
		{"landlock_create_ruleset", "strict", "refused: sandbox: confine files: the kernel has no Landlock"},
		{"landlock_create_ruleset", "standard", "runs without [shield: other processes are not shielded"}, // docs/adr/0004
		{"clone3", "standard", "refused: sandbox: a cgroup of its own: start processes in a cgroup, clone3: function not implemented"},
		{"clone3", "none", "runs without [a cgroup of its own: start processes in a cgroup, clone3: function not implemented"},
		{"unshare", "standard", "refused: sandbox: make a mount namespace"},
		{"unshare", "no network", "refused: sandbox: make an empty network"},
		{"unshare", "unwritten", "runs without [mounts: make a mount namespace"},
		{"mount_setattr", "standard", "refused: sandbox: make a mount namespace: mount_setattr: function not implemented"},
		{"mount_setattr", "unwritten", "runs without [mounts: make a mount namespace: mount_setattr: function not implemented"},
		{"seccomp", "standard", "refused: sandbox: filter system calls"},
		{"seccomp", "unwritten", "runs without [seccomp: filter system calls"},
		{"capset", "standard", "refused: sandbox: "},
		{"setgroups", "strict", "refused: sandbox: "},
		{"memfd_create", "core", "refused: exec: make a file for the order"},
		{"nfsservctl", "strict", "runs without []"}, // which nothing needs
	} {
		t.Run(tt.call+" "+tt.demand, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(exe, lacking, tempDir(t), tt.call, tt.demand).Output()
			if got := strings.TrimSpace(string(out)); err != nil || !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
