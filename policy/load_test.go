package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/filetrust"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// tree is a folder of the test's own.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) tree {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, weak := filetrust.Check(root); weak != nil { // the folder of temporary files is not as it should be
		home, err := os.UserHomeDir()
		if err == nil {
			root, err = os.MkdirTemp(home, ".policy-test-")
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(root) })
	}
	tr := tree{t, root}
	tr.chmod(".", 0o755) // whatever the umask
	return tr
}

func (tr tree) path(name string) string { return filepath.Join(tr.root, name) }

func (tr tree) write(name, content string, mode os.FileMode) string {
	tr.t.Helper()
	path := tr.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tr.t.Fatal(err)
	}
	tr.chmod(name, mode)
	return path
}

func (tr tree) chmod(name string, mode os.FileMode) {
	tr.t.Helper()
	if err := os.Chmod(tr.path(name), mode); err != nil {
		tr.t.Fatal(err)
	}
}

// load loads config.yaml of the tree.
func (tr tree) load(o policy.LoadOptions) (*policy.Config, string) {
	tr.t.Helper()
	o.ConfigFile = tr.path("config.yaml")
	c, err := policy.Load(o)
	if err != nil {
		return nil, strings.ReplaceAll(err.Error(), tr.root, "")
	}
	return c, strings.ReplaceAll(c.Problems.Error(), tr.root, "")
}

func names(c *policy.Config) []string {
	var out []string
	for _, p := range c.Plugins {
		out = append(out, p.Name)
	}
	return out
}

func TestAFolderIsReadWithoutBackupsDotfilesAndFoldersInside(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.write("config.yaml", supervisorYAML+"  pluginDirs: [plugins.d]\n", 0o644)
	tr.write("plugins.d/a.yaml", plugin("a"), 0o644)
	tr.write("plugins.d/b.yml", plugin("b"), 0o644)
	tr.write("elsewhere/c", plugin("c"), 0o644)
	for _, ignored := range []string{".a.yaml", ".#a.yaml", "a.yaml~", "a.yaml.bak", "a.yaml.swp", "#a.yaml#", "README", "a.json", "dir/x.yaml", "..data/a.yaml"} {
		tr.write("plugins.d/"+ignored, "nonsense: [", 0o644)
	}
	if err := os.Symlink("../elsewhere/c", tr.path("plugins.d/c.yaml")); err != nil {
		t.Fatal(err)
	}
	c, problems := tr.load(policy.LoadOptions{})
	if c == nil || problems != "" {
		t.Fatalf("problems: %s", problems)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGivenPathsReplaceTheConfiguredFolders(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.write("config.yaml", supervisorYAML, 0o644)
	tr.write("dir/a.yaml", plugin("a"), 0o644)
	file := tr.write("b.manifest", plugin("b"), 0o644)
	c, problems := tr.load(policy.LoadOptions{PluginPaths: []string{tr.path("dir") + "/", file, tr.path("dir/./a.yaml")}})
	if c == nil || problems != "" {
		t.Fatalf("problems: %s", problems)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheConfigurationFileMayLieAmongThePlugins(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.write("config.yaml", supervisorYAML+"---\n"+plugin("inside"), 0o644)
	tr.write("a.yaml", plugin("a"), 0o644)
	c, problems := tr.load(policy.LoadOptions{PluginPaths: []string{tr.root}})
	if c == nil || problems != "" {
		t.Fatalf("problems: %s", problems)
	}
	if diff := cmp.Diff([]string{"a", "inside"}, names(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeReadIsReportedAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.write("config.yaml", supervisorYAML+"  pluginDirs: [d, missing]\n", 0o644)
	tr.write("d/good.yaml", plugin("good"), 0o644)
	if err := syscall.Mkfifo(tr.path("d/pipe.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"dangling.yaml": "nowhere", "loop.yaml": "loop.yaml"} {
		if err := os.Symlink(target, tr.path("d/"+link)); err != nil {
			t.Fatal(err)
		}
	}
	c, problems := tr.load(policy.LoadOptions{})
	want := `/d/dangling.yaml: read the file: no such file or directory; create it, or correct the path
/d/loop.yaml: read the file: too many levels of symbolic links
/d/pipe.yaml: read the file: it is not a regular file but a named pipe
/missing: there is no such file or folder of plugin manifests; create it, or correct the path`
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"good"}, names(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(c.Invalid) != 3 || c.Invalid[0].Name != "" || !strings.HasSuffix(c.Invalid[0].File, "/d/dangling.yaml") {
		t.Errorf("invalid: %+v", c.Invalid)
	}
}

func TestAFileIsReadToOneByteBeyondTheLimitAndThenRefused(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	tr := newTree(t)
	tr.write("config.yaml", supervisorYAML, 0o644)
	text := plugin("p")
	for size, want := range map[int]int{limit: 1, limit + 1: 0, limit + 5000: 0} {
		path := tr.write("p.yaml", text+strings.Repeat("#", size-len(text)), 0o644)
		if c, problems := tr.load(policy.LoadOptions{PluginPaths: []string{path}}); len(c.Plugins) != want {
			t.Errorf("%d bytes: %d plugins, want %d: %s", size, len(c.Plugins), want, problems)
		}
	}
}

func TestAMissingDefaultFolderIsAWarning(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.write("config.yaml", supervisorYAML, 0o644)
	c, problems := tr.load(policy.LoadOptions{PluginPaths: []string{tr.path("none")}})
	if len(c.Problems.Errors()) != 1 {
		t.Errorf("a missing path that was given is no error: %s", problems)
	}
	if _, err := os.Stat("/etc/nri-supervisor/plugins.d"); err == nil {
		return // this machine has the default folder
	}
	c, problems = tr.load(policy.LoadOptions{})
	if len(c.Problems) != 1 || c.Problems[0].Severity != policy.Warning {
		t.Errorf("problems: %s", problems)
	}
}

func TestAConfigurationFileThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	if c, problems := tr.load(policy.LoadOptions{}); c != nil || problems != "/config.yaml: read the file: no such file or directory; create it, or correct the path" {
		t.Errorf("missing: %v, %s", c, problems)
	}
	if err := os.Mkdir(tr.path("config.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if c, problems := tr.load(policy.LoadOptions{}); c != nil || problems != "/config.yaml: read the file: it is not a regular file but a folder" {
		t.Errorf("folder: %v, %s", c, problems)
	}
}

func TestWithoutAConfigurationFileLoadUsesTheDefaults(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	path := tr.write("a.yaml", plugin("a"), 0o644)
	c, err := policy.Load(policy.LoadOptions{PluginPaths: []string{path}})
	if err != nil || len(c.Invalid) != 1 || c.Supervisor.RunDir != "/run/nri-supervisor" {
		t.Errorf("Load = %+v, %v", c, err)
	}
}

func TestFilesThatAManifestNamesAreLookedAtWhenAsked(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.write("config.yaml", supervisorYAML, 0o644)
	good := tr.write("bin/good", "#!/bin/sh\n", 0o755)
	tr.write("bin/plain", "", 0o644)
	tr.write("bin/suid", "", 0o755)
	tr.chmod("bin/suid", 0o755|os.ModeSetuid)
	tr.write("bin/writable", "", 0o777)
	tr.write("open/good", "", 0o755)
	tr.chmod("open", 0o775)
	token, settings := tr.write("token", "t", 0o600), tr.path("settings.json")
	if err := os.Symlink("good", tr.path("bin/link")); err != nil {
		t.Fatal(err)
	}
	exec := func(path string) string { return "exec: {path: " + path + "}" }
	for _, tt := range []struct{ name, lines, want string }{
		{"good", exec(good), ""},
		{"a symbolic link", exec(tr.path("bin/link")), ""},
		{"missing", exec(tr.path("bin/none")), `spec.exec.path: look at "/bin/none": no such file or directory; install the binary there, or correct the path`},
		{"a folder", exec(tr.path("bin")), `spec.exec.path: "/bin" is a folder; write the path of the binary`},
		{"a device", exec("/dev/null"), `spec.exec.path: "/dev/null" is a device, not a regular file; write the path of the binary`},
		{"not executable", exec(tr.path("bin/plain")), `spec.exec.path: "/bin/plain" is not executable (mode 0644); chmod +x /bin/plain`},
		{"setuid", exec(tr.path("bin/suid")), `spec.exec.path: "/bin/suid" is setuid or setgid, and so would undo what confines the plugin; chmod ug-s /bin/suid`},
		{"setuid without a profile", exec(tr.path("bin/suid")) + "\nsandbox: {profile: none}", ""},
		{"writable without a profile", exec(tr.path("bin/writable")) + "\nsandbox: {profile: none}", `spec.exec.path: "/bin/writable": the file /bin/writable can be written by others (owner {uid}, group {gid}, mode 0777); chmod go-w /bin/writable, or set fileTrust: off`},
		{"writable", exec(tr.path("bin/writable")), `spec.exec.path: "/bin/writable": the file /bin/writable can be written by others (owner {uid}, group {gid}, mode 0777); chmod go-w /bin/writable, or set fileTrust: off`},
		{"in a writable folder", exec(tr.path("open/good")), `spec.exec.path: "/open/good": the folder /open can be written by others (owner {uid}, group {gid}, mode 0775); chmod go-w /open, or set fileTrust: off`},
		{"a token", "exec: {path: " + good + ", env: [{name: T, valueFrom: {fileRef: " + token + "}}]}", ""},
		{
			"a missing token", "exec: {path: " + good + ", env: [{name: T, valueFrom: {fileRef: " + token + "x}}]}",
			`spec.exec.env[0].valueFrom.fileRef: read "/tokenx": no such file or directory; create the file, or correct the path`,
		},
		{
			"a missing configuration", exec(good) + "\nconfigFrom: {file: " + settings + "x}",
			`spec.configFrom.file: read "/settings.jsonx": no such file or directory; create the file, or correct the path`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := tr.write("p-"+strings.ReplaceAll(tt.name, " ", "-")+".yaml", plugin("p", tt.lines), 0o644)
			o := policy.LoadOptions{PluginPaths: []string{path}, CheckFiles: true}
			c, problems := tr.load(o)
			_, got, _ := strings.Cut(problems, ": ")
			want := strings.NewReplacer("{uid}", strconv.Itoa(os.Getuid()), "{gid}", strconv.Itoa(os.Getgid())).Replace(tt.want)
			if got != want || (c.Plugin("p") != nil) != (tt.want == "") {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			o.CheckFiles = false
			if c, problems := tr.load(o); len(c.Plugins) != 1 || problems != "" {
				t.Errorf("files are looked at although nobody asked: %s", problems)
			}
		})
	}
	t.Run("the configuration is what the file holds", func(t *testing.T) {
		t.Parallel()
		path := tr.write("p.yaml", plugin("p", exec(good)+"\nconfigFrom: {file: "+settings+"}"), 0o644)
		load := func(content string) *policy.Config {
			tr.write("settings.json", content, 0o600)
			c, problems := tr.load(policy.LoadOptions{PluginPaths: []string{path}, CheckFiles: true})
			if problems != "" {
				t.Fatal(problems)
			}
			if got := valid(t, c, "p").ConfigData(); got != content {
				t.Errorf("ConfigData = %q, want %q", got, content)
			}
			return c
		}
		if load("{\"a\": 1}\n").Hash == load("{\"a\": 2}\n").Hash {
			t.Error("the hash does not tell two configurations apart")
		}
	})
}

func TestASocketThatOthersCouldReplaceIsAWarning(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.write("config.yaml", supervisorYAML, 0o644)
	for _, dir := range []string{"open", "closed"} {
		tr.write(dir+"/x", "", 0o600)
	}
	tr.chmod("open", 0o777)
	for socket, want := range map[string]bool{"open/nri.sock": true, "open/later/nri.sock": true, "closed/nri.sock": false, "closed/later/nri.sock": false, "none/nri.sock": false} {
		path := tr.write("p-"+strings.ReplaceAll(socket, "/", "-")+".yaml", strings.Replace(plugin("p", "attach: {socket: "+tr.path(socket)+"}"), "exec:", "#", 1), 0o644)
		c, problems := tr.load(policy.LoadOptions{PluginPaths: []string{path}, CheckFiles: true})
		if c.Plugin("p") == nil {
			t.Fatalf("%s: %s", socket, problems)
		}
		warned := strings.Contains(problems, `warning: spec.attach.socket: others could put a socket of their own in the place of "/`+socket+`": the folder /open can be written by others (owner `)
		if warned != want || !want && problems != "" {
			t.Errorf("%s: %q", socket, problems)
		}
	}
}

func TestFilesThatOthersCanWriteAreRefusedUnlessFileTrustIsOff(t *testing.T) {
	t.Parallel()
	for _, trust := range []string{"strict", "off"} {
		tr := newTree(t)
		tr.write("config.yaml", supervisorYAML+"  fileTrust: "+trust+"\n", 0o644)
		binary := tr.write("bin/x", "", 0o777)
		tr.write("d/bad.yaml", plugin("bad", "exec: {path: "+binary+"}"), 0o666)
		o := policy.LoadOptions{PluginPaths: []string{tr.path("d")}}
		if c, problems := tr.load(o); len(c.Plugins) != 1 {
			t.Errorf("%s: refused although nobody asked: %s", trust, problems)
		}
		o.CheckFiles = true
		c, problems := tr.load(o)
		want, plugins := fmt.Sprintf("/d/bad.yaml: the file /d/bad.yaml can be written by others (owner %d, group %d, mode 0666); chmod go-w /d/bad.yaml, or set fileTrust: off", os.Getuid(), os.Getgid()), 0
		if trust == "off" {
			want, plugins = "", 1
		}
		if problems != want || len(c.Plugins) != plugins {
			t.Errorf("%s: %d plugins, %q", trust, len(c.Plugins), problems)
		}
		tr.chmod("d/bad.yaml", 0o644)
		tr.chmod("bin/x", 0o755)
		if c, problems := tr.load(o); len(c.Plugins) != 1 || problems != "" {
			t.Errorf("%s: mended: %s", trust, problems)
		}
		// Who can write to the folder can take a manifest away, and who can write above it the folder.
		for _, dir := range []string{"d", "."} {
			tr.chmod(dir, 0o775)
			c, problems = tr.load(o)
			if refused := c == nil || len(c.Plugins) == 0; refused != (trust == "strict") {
				t.Errorf("%s: %s can be written by others: %s", trust, dir, problems)
			}
			tr.chmod(dir, 0o755)
		}
		tr.chmod("config.yaml", 0o664)
		c, problems = tr.load(o)
		if refused := c == nil; refused != (trust == "strict") {
			t.Errorf("%s: a configuration file that others can write: %s", trust, problems)
		}
	}
}
