//go:build root

package isolation_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// manifestOf is a plugin of a team of its own.
func manifestOf(name, spec string) string {
	return fmt.Sprintf("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: %s}\nspec: {team: of-%s, index: \"20\", selector: {}, %s}\n", name, name, spec)
}

// TestAPluginThatAReloadAddsExecutesNothingThatOthersCouldChange: what is kept from a plugin is settled at its start, and it could have put a program of its own in the place of one that came later.
func TestAPluginThatAReloadAddsExecutesNothingThatOthersCouldChange(t *testing.T) {
	t.Parallel()
	injector, place, dir := harness.Plugin(t, "env-injector"), programs(t), harness.TempDir(t)
	early, late, marker := place+"/a/b/early", place+"/a/late", place+"/marker"
	copied(t, injector, early)
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir+"/"+name), 0o755), os.WriteFile(dir+"/"+name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("config.yaml", fmt.Sprintf("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {runtime: {socket: %[1]s/nri/nri.sock}, pluginDirs: [%[1]s/plugins.d], runDir: %[1]s/run, stateDir: %[1]s/state, "+
		"metrics: {address: \"127.0.0.1:0\"}, teams: {of-early: {contact: a}, of-late: {contact: b}, of-attached: {contact: c, allow: {attach: true}}}}\n", dir))
	write("plugins.d/early.yaml", manifestOf("early", "exec: {path: "+early+"}"))
	sup := harness.StartSupervisor(t, dir)
	sup.PluginPID("early") // waits for it
	copied(t, injector, late)
	write("plugins.d/late.yaml", manifestOf("late", "exec: {path: "+late+"}, sandbox: {profile: none}"))
	if code, out, errs := sup.Command("reload"); code != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), "plugin early runs and can change it: move it below /opt, write its exec.sha256") {
		t.Errorf("reload: exit code %d, %s%s", code, out, errs)
	}
	// What the first plugin may do, by its mounts.
	seen := func() string { return fmt.Sprintf("/proc/%d/root", sup.PluginPID("early")) }
	install(t, place+"/a/script", []byte("#!/bin/sh\ntouch "+marker+"\n"))
	if err := os.Rename(seen()+place+"/a/script", seen()+late); err != nil {
		t.Errorf("the first plugin cannot do it anyway: %v", err)
	}
	sup.Command("plugin", "restart", "late")
	// Not even when the first plugin has been started again, and has it kept from it from now on.
	starts := sup.Starts("early")
	sup.Command("plugin", "restart", "early")
	eventually(t, "the first plugin runs again", func() bool { return sup.Starts("early") > starts })
	refused := func() int {
		return len(sup.Lines(func(l map[string]any) bool {
			return strings.Contains(fmt.Sprint(l["error"]), "plugin early could change it")
		}))
	}
	before := refused()
	sup.Command("plugin", "restart", "late")
	eventually(t, "it is refused once more", func() bool { return refused() > before })
	if _, err := os.Stat(marker); err == nil {
		t.Error("a plugin's program was executed as another plugin")
	}
	write("plugins.d/attached.yaml", manifestOf("attached", "attach: {socket: "+place+"/socket/nri.sock}"))
	sup.Command("reload")
	line := sup.WaitLine(1, "plugin did not start", map[string]any{"plugin": "attached"})
	if text := fmt.Sprint(line["error"]); !strings.Contains(text, "plugin early runs and can connect there") {
		t.Errorf("a socket that the first plugin sees: %s", text)
	}
	if code := sup.Stop(); code != 0 {
		t.Errorf("stop: exit code %d", code)
	}
	copied(t, injector, late)
	sup = harness.StartSupervisor(t, dir)
	sup.PluginPID("late") // waits for it
	if err := os.Chmod(seen()+late, 0o700); !errors.Is(err, syscall.EROFS) {
		t.Errorf("the first plugin can write to what the other one executes: %v", err)
	}
	if code := sup.Stop(); code != 0 {
		t.Errorf("stop: exit code %d", code)
	}
}
