//go:build root

package isolation_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// TestAFileSystemThatDoesNotAnswerConcernsOnlyThePluginsThatLieThere: a server of FUSE that is stopped keeps whoever looks at its files waiting, and all plugins protect each other's executables.
func TestAFileSystemThatDoesNotAnswerConcernsOnlyThePluginsThatLieThere(t *testing.T) {
	t.Parallel()
	injector := harness.Plugin(t, "env-injector")
	program, err := os.ReadFile(injector)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		end  func(*fuseServer)
		says string
	}{
		{"stopped", (*fuseServer).freeze, "does not answer since "},
		{"dead", (*fuseServer).die, "transport endpoint is not connected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			place, dir := programs(t), harness.TempDir(t)
			for _, name := range []string{"a", "b"} {
				copied(t, injector, place+"/plugin-"+name)
			}
			server := serveFuse(t, place+"/served", program)
			write := func(name, text string) {
				t.Helper()
				if err := errors.Join(os.MkdirAll(dir+"/plugins.d", 0o755), os.WriteFile(dir+"/"+name, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			write("config.yaml", fmt.Sprintf("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {runtime: {socket: %[1]s/nri/nri.sock}, pluginDirs: [%[1]s/plugins.d], runDir: %[1]s/run, stateDir: %[1]s/state, "+
				"metrics: {address: \"127.0.0.1:0\"}, teams: {of-a: {contact: a}, of-b: {contact: b}, of-c: {contact: c}, of-d: {contact: d}}}\n", dir))
			write("plugins.d/a.yaml", manifestOf("a", "exec: {path: "+place+"/plugin-a}"))
			write("plugins.d/b.yaml", manifestOf("b", "exec: {path: "+place+"/plugin-b}"))
			write("plugins.d/c.yaml", manifestOf("c", "exec: {path: "+place+"/served/program}"))
			sup := harness.StartSupervisor(t, dir)
			b := sup.PluginPID("b")
			c, a := sup.PluginPID("c"), sup.PluginPID("a")
			tt.end(server)

			signalled(t, a)
			eventually(t, "another plugin is started again", func() bool { return sup.Starts("a") == 2 })
			// Nothing can be put there that would be executed when the host has unmounted it.
			if err := os.WriteFile(fmt.Sprintf("/proc/%d/root%s/served/program", restarted(t, sup, "a", a), place), nil, 0o755); !errors.Is(err, syscall.EROFS) {
				t.Errorf("another plugin writes below what does not answer: %v", err)
			}
			signalled(t, c)
			line := sup.WaitLine(1, "plugin did not start", map[string]any{"plugin": "c"})
			if text := fmt.Sprint(line["error"]); !strings.Contains(text, tt.says) {
				t.Errorf("its own plugin: %s", text)
			}
			write("plugins.d/d.yaml", manifestOf("d", "exec: {path: "+place+"/served/program-d}"))
			write("plugins.d/b.yaml", manifestOf("b", "exec: {path: "+place+"/plugin-b, env: [{name: X, value: \"1\"}]}"))
			if code, out, errs := sup.Command("reload"); code != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), tt.says) || !strings.Contains(out, "b: changed, by a new process") {
				t.Errorf("reload: exit code %d, %s%s", code, out, errs)
			}
			restarted(t, sup, "b", b)
			if code, out, errs := harness.Run(t, "check", "--config", dir+"/config.yaml"); code != 1 || !strings.Contains(out, tt.says) {
				t.Errorf("check: exit code %d, %s%s", code, out, errs)
			}
			if code := sup.Stop(); code != 0 {
				t.Errorf("stop: exit code %d", code)
			}
			sup = harness.StartSupervisor(t, dir)
			sup.PluginPID("a") // waits for it
			sup.PluginPID("b")
			if code := sup.Stop(); code != 0 {
				t.Errorf("stop after a start without an answer: exit code %d", code)
			}
		})
	}
}

// TestAFolderOfTheSystemThatDoesNotAnswerKeepsNoPluginFromBeingStarted: each plugin with the standard profile is kept from writing to some, which may lie on a server's file system. Who
// waits for a server that takes a request and does not answer cannot be killed: that must not be the service.
func TestAFolderOfTheSystemThatDoesNotAnswerKeepsNoPluginFromBeingStarted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*fuseServer)
	}{{"stopped", (*fuseServer).freeze}, {"takes requests only", (*fuseServer).swallow}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			injector := harness.Plugin(t, "env-injector")
			place, dir := programs(t), harness.TempDir(t)
			server := serveFuse(t, place+"/served", nil)
			copied(t, injector, place+"/plugin-a")
			copied(t, injector, place+"/plugin-b")
			run := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -c 'mount --bind %s/served /home && exec %s \"$@\"' sh \"$@\"\n", place, harness.Supervisor(t))
			for path, text := range map[string]string{
				"run-there": run,
				"config.yaml": fmt.Sprintf("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {runtime: {socket: %[1]s/nri/nri.sock}, pluginDirs: [%[1]s/plugins.d], runDir: %[1]s/run, stateDir: %[1]s/state, "+
					"metrics: {address: \"127.0.0.1:0\"}, teams: {of-a: {contact: a}, of-b: {contact: b}}}\n", dir),
				"plugins.d/a.yaml": manifestOf("a", "exec: {path: "+place+"/plugin-a}"),
				"plugins.d/b.yaml": manifestOf("b", "exec: {path: "+place+"/plugin-b}, sandbox: {profile: standard, readOnlyPaths: [/home]}"),
			} {
				syscall.ForkLock.RLock() // a child that inherits the descriptor until it executes something would keep the script from being executed
				err := errors.Join(os.MkdirAll(dir+"/plugins.d", 0o755), os.WriteFile(dir+"/"+path, []byte(text), 0o700))
				syscall.ForkLock.RUnlock()
				if err != nil {
					t.Fatal(err)
				}
			}
			sup := harness.StartSupervisorWith(t, dir, harness.Options{Binary: dir + "/run-there"})
			a, b := sup.PluginPID("a"), sup.PluginPID("b")
			server.idle(t) // a look that has begun before is none that is made elsewhere
			tt.end(server)
			signalled(t, a)
			restarted(t, sup, "a", a)
			signalled(t, b)
			line := sup.WaitLine(1, "plugin did not start", map[string]any{"plugin": "b"})
			if text := fmt.Sprint(line["error"]); !strings.Contains(text, `show "/home": `) || !strings.Contains(text, "does not answer since ") {
				t.Errorf("a plugin that lists it: %s", text)
			}
			if n := len(sup.Lines(func(l map[string]any) bool { return l["msg"] == "plugin did not start" && l["plugin"] == "a" })); n != 0 {
				t.Errorf("a plugin that does not list it did not start %d times", n)
			}
			if code := sup.Stop(); code != 0 {
				t.Errorf("stop: exit code %d", code)
			}
		})
	}
}

// signalled kills a plugin.
func signalled(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// restarted waits for another process of a plugin.
func restarted(t *testing.T, sup *harness.Process, plugin string, old int) (pid int) {
	t.Helper()
	eventually(t, plugin+" has another process", func() bool {
		pid = sup.PluginPID(plugin)
		return pid != old && pid != 0
	})
	return pid
}
