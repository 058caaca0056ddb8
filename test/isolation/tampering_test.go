//go:build root

package isolation_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// tamperWorld is a service with a hostile plugin of root, which does what it is told, and what it shall not be able to make others execute.
type tamperWorld struct {
	t          *testing.T
	place, dir string // where plugins may write, and the service's own
	injector   string // a plugin that does no harm
	victim     string // who shall be refused
	sup        *harness.Process
	told       int
}

func newTamperWorld(t *testing.T) *tamperWorld {
	t.Helper()
	w := &tamperWorld{t: t, place: programs(t), dir: harness.TempDir(t), injector: harness.Plugin(t, "env-injector"), victim: "late"}
	for _, folder := range []string{w.place + "/told", w.dir + "/plugins.d"} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copied(t, w.injector, w.place+"/injector")
	// It stays in service, and a child of it executes what it finds.
	install(t, w.place+"/hostile", w.hostile())
	w.write("config.yaml", fmt.Sprintf("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {runtime: {socket: %[1]s/nri/nri.sock}, pluginDirs: [%[1]s/plugins.d], runDir: %[1]s/run, stateDir: %[1]s/state, "+
		"metrics: {address: \"127.0.0.1:0\"}, teams: {of-hostile: {contact: a}, of-late: {contact: b}}}\n", w.dir))
	w.good("early")
	return w
}

func (w *tamperWorld) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.dir+"/"+name, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// hostile is its program. With QUIET it does no harm.
func (w *tamperWorld) hostile() []byte {
	return fmt.Appendf(nil, `#!/bin/sh
if [ -z "$QUIET" ]; then
(exec </dev/null >/dev/null 2>&1 3>&-; exec 8<>%[1]s/early; cd %[1]s/told; while :; do for f in *.sh; do if [ -e "$f" ]; then sh "$f" >"$f.tmp" 2>&1; rm "$f"; mv "$f.tmp" "$f.out"; fi; done; sleep 0.05; done) &
fi
exec %[1]s/injector "$@"
`, w.place)
}

// replace has the administrator install a program anew, by rename.
func (w *tamperWorld) replace(path string, content []byte) {
	w.t.Helper()
	install(w.t, path+".new", content)
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Fatal(err)
	}
}

// overwritten has the hostile plugin overwrite its own program, which the administrator replaced, and be started again from that.
func (w *tamperWorld) overwritten() {
	w.t.Helper()
	w.replace(w.place+"/hostile", w.hostile())
	w.tell(w.bad() + "cat " + w.place + "/a/bad >" + w.place + "/hostile")
	signalled(w.t, w.sup.PluginPID("hostile"))
	eventually(w.t, "the hostile plugin executes what it wrote", func() bool {
		_, err := os.Stat(w.place + "/again")
		return err == nil
	})
}

// below is a folder of a place that the profile keeps from plugins.
func (w *tamperWorld) below(place string) string {
	w.t.Helper()
	dir, err := os.MkdirTemp(place, "nris-test-")
	if err == nil {
		w.t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// replacedWhereItLists lets the hostile plugin list a folder with a program of another plugin, which the administrator replaces.
func (w *tamperWorld) replacedWhereItLists(dir string) {
	w.t.Helper()
	program, err := os.ReadFile(w.injector)
	if err != nil {
		w.t.Fatal(err)
	}
	install(w.t, dir+"/late", program)
	w.write("plugins.d/late.yaml", manifestOf("late", "exec: {path: "+dir+"/late}, sandbox: {profile: none}"))
	w.serve(", sandbox: {readWritePaths: [" + dir + "]}")
	late := w.sup.PluginPID("late")
	w.replace(dir+"/late", program)
	w.tell(w.bad() + "cp " + w.place + "/a/bad " + dir + "/bad; mv " + dir + "/bad " + dir + "/late")
	hostile := w.sup.PluginPID("hostile")
	signalled(w.t, hostile)
	restarted(w.t, w.sup, "hostile", hostile) // which keeps the file from it
	signalled(w.t, late)
}

// good installs the program that shall be executed.
func (w *tamperWorld) good(name string) { copied(w.t, w.injector, w.place+"/"+name) }

// bad is a script that installs what shall not be executed without a profile, as a program at a path.
func (w *tamperWorld) bad() string {
	return fmt.Sprintf("printf '#!/bin/sh\\ntouch %[1]s/again\\n[ -w /usr ] && touch %[1]s/executed\\n' >%[1]s/a/bad && chmod 755 %[1]s/a/bad\n", w.place)
}

// tell lets the hostile plugin execute a script.
func (w *tamperWorld) tell(script string) {
	w.t.Helper()
	w.told++
	name := fmt.Sprintf("%s/told/%d.sh", w.place, w.told)
	if err := errors.Join(os.WriteFile(name+".new", []byte(script), 0o600), os.Rename(name+".new", name)); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the hostile plugin has done it", func() bool {
		_, err := os.Stat(name + ".out")
		return err == nil
	})
}

// manifest is that of the plugin that executes a path.
func (w *tamperWorld) manifest(name, more string) { w.manifestAt(w.place+"/"+name, more) }

func (w *tamperWorld) manifestAt(path, more string) {
	w.t.Helper()
	w.write("plugins.d/late.yaml", manifestOf("late", "exec: {path: "+path+more+"}, sandbox: {profile: none}"))
}

// add adds that plugin to the service, or changes it.
func (w *tamperWorld) add(name, more string) {
	w.t.Helper()
	w.manifest(name, more)
	_, _, _ = w.sup.Command("reload") // what it says is that the plugin was refused, or not
}

// refusals are how often the victim was not started because of what another one could have written.
func (w *tamperWorld) refusals() int {
	return len(w.sup.Lines(func(l map[string]any) bool {
		return l["msg"] == "plugin did not start" && l["plugin"] == w.victim && strings.Contains(fmt.Sprint(l["error"]), "change it")
	}))
}

func (w *tamperWorld) executed() bool {
	_, err := os.Stat(w.place + "/executed")
	return err == nil
}

// serve starts the service with the hostile plugin.
func (w *tamperWorld) serve(more string) {
	w.t.Helper()
	w.write("plugins.d/hostile.yaml", manifestOf("hostile", "exec: {path: "+w.place+"/hostile}"+more))
	w.sup = harness.StartSupervisor(w.t, w.dir)
	w.sup.PluginPID("hostile")
}

// remove ends the hostile plugin.
func (w *tamperWorld) remove() {
	w.t.Helper()
	if err := os.Remove(w.dir + "/plugins.d/hostile.yaml"); err != nil {
		w.t.Fatal(err)
	}
	if code, out, errs := w.sup.Command("reload"); code == 2 {
		w.t.Fatalf("reload: %s%s", out, errs)
	}
	w.sup.WaitLine(1, "plugin exited", map[string]any{"plugin": "hostile"})
}

// tampering are the ways to have another plugin execute what the hostile one wrote. Each ends when that plugin has been tried.
func tampering() map[string]func(w *tamperWorld) {
	return map[string]func(w *tamperWorld){
		"it exits before it registers": func(w *tamperWorld) {
			install(w.t, w.place+"/exits", []byte("#!/bin/sh\n"+w.bad()+"mv "+w.place+"/a/bad "+w.place+"/late\n"))
			w.write("plugins.d/hostile.yaml", manifestOf("hostile", "exec: {path: "+w.place+"/exits}"))
			w.sup = harness.StartSupervisor(w.t, w.dir)
			w.sup.WaitLine(1, "plugin did not start", map[string]any{"plugin": "hostile"})
			if err := os.Remove(w.dir + "/plugins.d/hostile.yaml"); err != nil {
				w.t.Fatal(err)
			}
			_, _, _ = w.sup.Command("reload")
			w.add("late", "")
		},
		"it renames a file, and is removed": func(w *tamperWorld) {
			w.serve("")
			w.good("late")
			w.tell(w.bad() + "mv " + w.place + "/a/bad " + w.place + "/late")
			w.remove()
			w.add("late", "")
		},
		"it writes through what it opened before": func(w *tamperWorld) {
			w.serve("")
			w.add("early", "")
			w.tell(w.bad() + "cat " + w.place + "/a/bad >&8")
			w.remove()
			w.add("early", ", args: [again]")
		},
		"it writes to a second name": func(w *tamperWorld) {
			w.serve("")
			w.good("late")
			w.tell("ln " + w.place + "/late " + w.place + "/a/link")
			w.add("late", "")
			w.tell(w.bad() + "cat " + w.place + "/a/bad >" + w.place + "/a/link")
			_, _, _ = w.sup.Command("plugin", "restart", "late")
		},
		"the administrator replaces the file first": func(w *tamperWorld) {
			w.good("late")
			w.manifest("late", "")
			w.serve("")
			w.sup.PluginPID("late")
			w.tell("echo >>" + w.place + "/late; mv " + w.place + "/late " + w.place + "/x") // which is kept from it
			w.good("new")
			if err := os.Rename(w.place+"/new", w.place+"/late"); err != nil {
				w.t.Fatal(err)
			}
			w.tell(w.bad() + "mv " + w.place + "/a/bad " + w.place + "/late")
			w.remove()
			signalled(w.t, w.sup.PluginPID("late"))
		},
		"the administrator renames the folder first": func(w *tamperWorld) {
			w.good("a/b/late")
			w.manifest("a/b/late", "")
			w.serve("")
			late := w.sup.PluginPID("late")
			w.tell("cd " + w.place + "; mv a/b a/c; mv a d") // which is kept from it
			if err := errors.Join(os.Rename(w.place+"/a", w.place+"/old"), os.MkdirAll(w.place+"/a/b", 0o755)); err != nil {
				w.t.Fatal(err)
			}
			w.tell(w.bad() + "mv " + w.place + "/a/bad " + w.place + "/a/b/late")
			w.remove()
			signalled(w.t, late)
		},
		"the file is mounted below /opt later": func(w *tamperWorld) {
			opt := "/opt/nris-test-" + filepath.Base(w.place)
			w.serve("")
			w.good("a/late")
			mountedAt(w.t, w.place+"/a", opt, "", unix.MS_BIND)
			w.t.Cleanup(func() { _ = os.Remove(opt) }) // after it is unmounted there is nothing in it
			w.tell(w.bad() + "mv " + w.place + "/a/bad " + w.place + "/a/late")
			w.remove()
			w.manifestAt(opt+"/late", "")
			_, _, _ = w.sup.Command("reload")
		},
		"the file is mounted at another place later": func(w *tamperWorld) {
			w.serve("")
			w.good("a/late")
			mountedAt(w.t, w.place+"/a", w.place+"/mounted", "", unix.MS_BIND)
			w.tell(w.bad() + "mv " + w.place + "/a/bad " + w.place + "/a/late")
			w.add("mounted/late", "")
		},
		"it lists a folder below /tmp": func(w *tamperWorld) { w.replacedWhereItLists(w.below("/tmp")) },
		"it lists a folder below /opt": func(w *tamperWorld) { w.replacedWhereItLists(w.below("/opt")) },
		"it is started again from what it wrote": func(w *tamperWorld) {
			w.manifest("hostile", ", env: [{name: QUIET, value: \"1\"}]")
			w.serve("")
			late := w.sup.PluginPID("late")
			w.overwritten()
			signalled(w.t, late)
		},
		"it is started again from what it wrote, and another executes that": func(w *tamperWorld) {
			w.serve("")
			w.overwritten()
			w.add("hostile", "")
		},
		"it is started again from what it wrote, and loses its profile": func(w *tamperWorld) {
			w.victim = "hostile"
			w.serve("")
			w.overwritten()
			w.write("plugins.d/hostile.yaml", manifestOf("hostile", "exec: {path: "+w.place+"/hostile}, sandbox: {profile: none}"))
			_, _, _ = w.sup.Command("reload")
		},
		"a file has two names, and its plugin is started first": func(w *tamperWorld) {
			w.good("late")
			if err := os.Link(w.place+"/late", w.place+"/a/link"); err != nil {
				w.t.Fatal(err)
			}
			w.write("plugins.d/late.yaml", strings.Replace(manifestOf("late", "exec: {path: "+w.place+"/late}, sandbox: {profile: none}"), `"20"`, `"10"`, 1))
			w.serve("")
		},
	}
}

func TestWhatAPluginWroteIsNotExecutedByAnother(t *testing.T) {
	t.Parallel()
	for name, attack := range tampering() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTamperWorld(t)
			attack(w)
			eventually(t, "the other plugin is refused", func() bool { return w.refusals() > 0 })
			w.sup.Stop()
			if w.executed() {
				t.Error("what another plugin wrote was executed")
			}
		})
	}
}

func TestWhatAnotherPluginExecutesIsKeptFromOneThatListsItsFolder(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"/opt", "/tmp"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			w := newTamperWorld(t)
			dir := w.below(place)
			install(t, dir+"/late", w.hostile()) // a script, which can be written while it is executed
			w.write("plugins.d/late.yaml", manifestOf("late", "exec: {path: "+dir+"/late, env: [{name: QUIET, value: \"1\"}]}, sandbox: {profile: none}"))
			w.serve(", sandbox: {readWritePaths: [" + dir + "]}")
			w.tell("echo >" + dir + "/file; echo >>" + dir + "/late; mv " + dir + "/late " + dir + "/x")
			got, err := os.ReadFile(dir + "/late")
			if err != nil || string(got) != string(w.hostile()) {
				t.Errorf("%v; it was changed to %q", err, got)
			}
			if _, err := os.Stat(dir + "/file"); err != nil {
				t.Errorf("what it lists: %v", err)
			}
		})
	}
}

// TestWhatAPluginWithoutAProfileWroteIsExecuted shows that the attempt does something: the node trusts such a plugin.
func TestWhatAPluginWithoutAProfileWroteIsExecuted(t *testing.T) {
	t.Parallel()
	w := newTamperWorld(t)
	w.serve(", sandbox: {profile: none}")
	w.good("late")
	w.tell(w.bad() + "mv " + w.place + "/a/bad " + w.place + "/late")
	w.add("late", "")
	eventually(t, "what it wrote is executed", w.executed)
}
