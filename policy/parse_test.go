package policy_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestADocumentThatSaysEveryDefaultEqualsOneThatSaysNothing(t *testing.T) {
	t.Parallel()
	full, err := policy.Parse([]policy.SourceFile{read(t, "full.yaml")}, policy.LoadOptions{ConfigFile: "full.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	supervisor, spec := policy.DefaultSpecs()
	supervisor.Admin.Socket = "/run/nri-supervisor/admin.sock"
	supervisor.Audit.Path = "/var/lib/nri-supervisor/audit.jsonl"
	supervisor.Teams = full.Supervisor.Teams
	if diff := cmp.Diff(supervisor, full.Supervisor); diff != "" {
		t.Errorf("Supervisor (-built in +written):\n%s", diff)
	}
	spec.Team, spec.Index = "ml-infra", "20"
	spec.Selector = &policy.Selector{}
	spec.Exec = &policy.ExecSpec{Path: "/opt/ml-infra/gpu-env", Protocol: policy.GoPlugin}
	if diff := cmp.Diff(spec, valid(t, full, "gpu-env").Spec, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Plugin (-built in +written):\n%s", diff)
	}
	if errs := full.Problems.Errors(); len(errs) > 0 {
		t.Errorf("the example with every default has errors:\n%v", errs)
	}
}

func TestYAMLIsReadInAllTheFormsThatPeopleWrite(t *testing.T) {
	t.Parallel()
	good := plugin("p")
	for name, text := range map[string]string{
		"byte order mark":       "\xef\xbb\xbf" + good,
		"carriage returns":      strings.ReplaceAll(good, "\n", "\r\n"),
		"empty documents":       "---\n---\n# nothing\n---\n" + good + "---\n",
		"end marker":            good + "...\n",
		"json":                  `{"apiVersion": "nri-supervisor.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "p"}, "spec": {"team": "open", "index": "20", "exec": {"path": "/opt/x"}, "selector": {}}}`,
		"anchors":               plugin("p", "timeouts: {default: &t 1s, CreateContainer: *t}"),
		"merge key":             plugin("p", "timeouts: &t {default: 1s}", "config: {<<: *t, a: 1}"),
		"explicit string tag":   plugin("p", "index: !!str 20"),
		"no newline at the end": strings.TrimSuffix(good, "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := parse(t, supervisorYAML, text)
			if len(c.Problems) > 0 || len(c.Plugins) != 1 || c.Plugins[0].Index != "20" {
				t.Errorf("%d plugins, problems:\n%v", len(c.Plugins), c.Problems)
			}
		})
	}
}

func TestAMergeKeyNeverOverridesWhatIsWritten(t *testing.T) {
	t.Parallel()
	p := one(t, "timeouts: &t {default: 1s, start: 3s}", "config: {<<: [*t, {start: x, z: 1}], default: mine}")
	if got, want := p.ConfigData(), `{"default":"mine","start":"3s","z":1}`; got != want {
		t.Errorf("config = %s, want %s", got, want)
	}
}

func TestAFileAboveTheSizeLimitIsRefusedWithTheNumbers(t *testing.T) {
	t.Parallel()
	big := append([]byte(plugin("p")), bytes.Repeat([]byte("# padding\n"), 420_000)...)
	c := parse(t, supervisorYAML, string(big))
	if len(c.Plugins) != 0 || len(c.Invalid) != 1 || !strings.Contains(c.Problems.Error(), "more than the limit of 4194304 (4 MiB)") {
		t.Errorf("problems: %v", c.Problems)
	}
}

func TestAliasesCannotBlowUpAFile(t *testing.T) {
	t.Parallel()
	repeat := func(what string) string { return "[" + strings.Repeat(what+",", 9) + what + "]" }
	// Values without text, and text without many values: one limit each.
	empty := "config:\n  a: &a " + repeat(`""`)
	for _, pair := range []string{"ab", "bc", "cd", "de", "ef"} {
		empty += "\n  " + pair[1:] + ": &" + pair[1:] + " " + repeat("*"+pair[:1])
	}
	long := "config:\n  a: &a " + strings.Repeat("x", 1<<20) + "\n  b: " + repeat("*a") + "\n  c: " + repeat("*a")
	for name, text := range map[string]string{"many values": empty, "long values": long} {
		c := parse(t, supervisorYAML, plugin("p", text))
		if len(c.Plugins) != 0 || !strings.Contains(c.Problems.Error(), "once its aliases are expanded") {
			t.Errorf("%s: %v", name, c.Problems)
		}
	}
}

func TestAFileFullOfMistakesIsReportedInBoundsAndInTime(t *testing.T) {
	t.Parallel()
	bad := strings.Repeat(`"[",`, 15_000)
	fields := strings.Builder{}
	for i := range 2_000 {
		fmt.Fprintf(&fields, "\nx%d: 1", i)
	}
	// Time on the CPU, so that a busy machine does not matter.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime(t)
	c := parse(t, supervisorYAML, plugin("p", "selector: {namespaces: {include: ["+bad+"]}, containers: {names: ["+bad+"]}}", fields.String()))
	if len(c.Plugins) != 0 || len(c.Problems) != 100 {
		t.Errorf("%d plugins, %d problems", len(c.Plugins), len(c.Problems))
	}
	if !strings.Contains(c.Problems.Error(), "the document has more mistakes than are reported; mend the ones that are, and check again") {
		t.Error("nobody is told that there are more")
	}
	// A quadratic walk takes minutes.
	if took := threadTime(t) - start; took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

// threadTime is the time that the calling thread has spent on the CPU.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestAMessageIsCutAtItsLimit(t *testing.T) {
	t.Parallel()
	c := parse(t, supervisorYAML, plugin("p", "failurePolicy: "+strings.Repeat("é", 5000)))
	if len(c.Problems) != 1 || len(c.Problems[0].Message) > 1010 || !strings.HasSuffix(c.Problems[0].Message, "…") {
		t.Errorf("%d problems, the message has %d bytes", len(c.Problems), len(c.Problems[0].Message))
	}
}

func TestOneBrokenPluginLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	c := parse(t, supervisorYAML, plugin("good"), plugin("bad", "parallel: maybe"), plugin("also-good"), "kind: [\n")
	if len(c.Plugins) != 2 || c.Plugin("good") == nil || c.Plugin("also-good") == nil || c.Plugin("bad") != nil {
		t.Errorf("valid: %v", c.Plugins)
	}
	type brief struct{ Name, Team, File string }
	var got []brief
	for _, i := range c.Invalid {
		got = append(got, brief{i.Name, i.Team, i.File})
	}
	// The unreadable rest of the file comes first: it has no line of its own.
	want := []brief{{"", "", "plugins.yaml"}, {"bad", "open", "plugins.yaml"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("invalid (-want +got):\n%s", diff)
	}
}

func TestPluginsAreOrderedByIndexThenName(t *testing.T) {
	t.Parallel()
	c := parse(t, supervisorYAML, plugin("b"), plugin("c", `index: "05"`), plugin("a"), plugin("d", `index: "99"`))
	var got []string
	for _, p := range c.Plugins {
		got = append(got, p.Index+"-"+p.Name)
	}
	if diff := cmp.Diff([]string{"05-c", "20-a", "20-b", "99-d"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestANameUsedInTwoFilesMakesBothInvalidAndNamesBothPlaces(t *testing.T) {
	t.Parallel()
	c, err := policy.Parse([]policy.SourceFile{
		{Path: "config.yaml", Data: []byte(supervisorYAML)},
		{Path: "b.yaml", Data: []byte(plugin("twin"))},
		{Path: "a.yaml", Data: []byte(plugin("other") + "---\n" + plugin("twin"))},
	}, policy.LoadOptions{ConfigFile: "config.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Plugins) != 1 || len(c.Invalid) != 2 {
		t.Fatalf("%d valid, %d invalid", len(c.Plugins), len(c.Invalid))
	}
	for i, want := range []string{"a.yaml:12: metadata.name: the name \"twin\" is used more than once, also in b.yaml:3", "b.yaml:3: metadata.name: the name \"twin\" is used more than once, also in a.yaml:12"} {
		if got := c.Problems[i].Error(); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want it to start with %q", got, want)
		}
	}
}

func TestDefaultsLieBeneathEachPluginMapsMergeListsReplace(t *testing.T) {
	t.Parallel()
	supervisor := supervisorYAML + `
  defaults:
    exec: {args: [--a, --b], protocol: nri}
    config: {nested: {a: 1, b: 2}, list: [1, 2]}
    timeouts: {default: 1s, CreateContainer: 2s}
    selector: {namespaces: {exclude: [secret]}}
    breaker: {consecutiveFailures: 7}
    failurePolicyEvents: [RunPodSandbox]
`
	c := parse(t, supervisor,
		plugin("one", "exec: {path: /opt/x, args: [--c]}", "config: {nested: {b: 3}, list: [9]}", "timeouts: {CreateContainer: 100ms}"),
		plugin("text", "configText: own", "failurePolicyEvents: []"))
	p := valid(t, c, "one")
	if got, want := p.ConfigData(), `{"list":[9],"nested":{"a":1,"b":3}}`; got != want {
		t.Errorf("config = %s, want %s", got, want)
	}
	if diff := cmp.Diff([]string{"--c"}, p.Spec.Exec.Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	if p.Spec.Exec.Protocol != policy.NRI || p.Spec.Timeouts.Default.String() != "1s" || p.Spec.Timeouts.CreateContainer.String() != "100ms" || p.Spec.Breaker.ConsecutiveFailures != 7 {
		t.Errorf("spec = %+v", p.Spec)
	}
	if diff := cmp.Diff([]string{"secret"}, p.Spec.Selector.Namespaces.Exclude); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]policy.EventName{"RunPodSandbox"}, p.Spec.FailurePolicyEvents); diff != "" {
		t.Errorf("failurePolicyEvents (-want +got):\n%s", diff)
	}
	// An alternative that the plugin chose drives out the default one.
	text := valid(t, c, "text")
	if text.ConfigData() != "own" || len(text.Spec.FailurePolicyEvents) != 0 {
		t.Errorf("config = %q, failurePolicyEvents = %v", text.ConfigData(), text.Spec.FailurePolicyEvents)
	}
}

func TestADefaultSelectorDoesNotSaveWritingOne(t *testing.T) {
	t.Parallel()
	text := strings.Replace(plugin("p"), "  selector: {}\n", "", 1)
	c := parse(t, supervisorYAML+"  defaults: {selector: {namespaces: {include: [a]}}}\n", text)
	if len(c.Plugins) != 0 || !strings.Contains(c.Problems.Error(), "the selector is missing") {
		t.Errorf("problems: %v", c.Problems)
	}
}

func TestTheErrorOfAnUnusableSupervisorDocumentListsThePluginsMistakesToo(t *testing.T) {
	t.Parallel()
	_, err := policy.Parse([]policy.SourceFile{
		{Path: "config.yaml", Data: []byte("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {runDir: x}\n")},
		{Path: "p.yaml", Data: []byte(plugin("p", "parallel: 3"))},
	}, policy.LoadOptions{ConfigFile: "config.yaml"})
	want := "config.yaml:3: spec.runDir: \"x\" does not start with /; write an absolute path\n" +
		"p.yaml:5: spec.parallel: \"3\" is not a bool; write true or false, unquoted"
	if err == nil || err.Error() != want {
		t.Errorf("err =\n%v\nwant\n%s", err, want)
	}
	var p policy.Problem
	if !errors.As(err, &p) || p.File != "config.yaml" {
		t.Errorf("errors.As found %+v", p)
	}
}

func TestWithoutAConfigurationFileNoTeamIsDeclared(t *testing.T) {
	t.Parallel()
	c, err := policy.Parse([]policy.SourceFile{{Path: "p.yaml", Data: []byte(plugin("p"))}}, policy.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Invalid) != 1 || !strings.Contains(c.Problems.Error(), `write open: {contact: "#open", namespaces: ["open-*"]} under spec.teams`) {
		t.Errorf("problems: %v", c.Problems)
	}
	if c.Supervisor.Admin.Socket != "/run/nri-supervisor/admin.sock" {
		t.Errorf("admin socket = %q", c.Supervisor.Admin.Socket)
	}
}

func TestAMissingConfigurationFileIsAnError(t *testing.T) {
	t.Parallel()
	if c, err := policy.Parse(nil, policy.LoadOptions{ConfigFile: "config.yaml"}); err == nil || c != nil {
		t.Errorf("Parse = %v, %v", c, err)
	}
}

func TestThePluginsNameMustLeaveRoomForItsSockets(t *testing.T) {
	t.Parallel()
	// 107 - 40 (runDir) - 33 leaves 34.
	supervisor := supervisorYAML + "  runDir: /run/" + strings.Repeat("r", 35) + "\n"
	fits, tooLong := strings.Repeat("p", 34), strings.Repeat("q", 35)
	c := parse(t, supervisor, plugin(fits), plugin(tooLong))
	if c.Plugin(fits) == nil || c.Plugin(tooLong) != nil || !strings.Contains(c.Problems.Error(), "the name has 35 bytes; in runDir /run/r") {
		t.Errorf("problems: %v", c.Problems)
	}
}

func TestTheHashTellsContentsAndNamesApart(t *testing.T) {
	t.Parallel()
	hash := func(files ...policy.SourceFile) string {
		c, err := policy.Parse(files, policy.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Hash
	}
	a, b := policy.SourceFile{Path: "a", Data: []byte("x: 1")}, policy.SourceFile{Path: "b", Data: []byte("y: 2")}
	if hash(a, b) != hash(b, a) {
		t.Error("the order in which files are given changes the hash")
	}
	seen := map[string]bool{}
	for _, files := range [][]policy.SourceFile{
		{}, {a}, {b}, {a, b}, {{Path: "a", Data: b.Data}}, {{Path: "ax", Data: []byte(": 1")}}, {a, {Path: "b"}},
	} {
		h := hash(files...)
		if len(h) != 64 || seen[h] {
			t.Errorf("hash %q of %v is not 64 digits or not new", h, files)
		}
		seen[h] = true
	}
}

func TestTheConfigurationReachesThePluginAsJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, yaml, want string }{
		{"none", "parallel: false", "{}"},
		{"empty object", "config: {}", "{}"},
		{"none for a stock plugin", "exec: {path: /opt/x, protocol: nri}", ""},
		{"sorted without white space", "config: {b: 1, a: [x, {z: 2}]}", `{"a":["x",{"z":2}],"b":1}`},
		{"numbers", "config: {i: 0x10, o: 0o17, u: 18446744073709551615, f: 1.50, n: -3, e: 1e3, s: 1_000}", `{"e":1000,"f":1.5,"i":16,"n":-3,"o":15,"s":1000,"u":18446744073709551615}`},
		{"words", "config: {t: true, f: False, n: ~, y: yes, q: \"true\", d: 2001-01-01}", `{"d":"2001-01-01","f":false,"n":null,"q":"true","t":true,"y":"yes"}`},
		{"characters", `config: {h: "<a & b>", u: "é", nl: "a\nb", "1": 2, 3: 4}`, `{"1":2,"3":4,"h":"<a & b>","nl":"a\nb","u":"é"}`},
		{"text as it is", "configText: |\n  a: b\n  # c", "a: b\n# c\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := one(t, tt.yaml).ConfigData(); got != tt.want {
				t.Errorf("ConfigData = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTheEnvironmentIsResolvedInOrder(t *testing.T) {
	t.Parallel()
	p := one(t, "exec: {path: /opt/x, env: [{name: B, value: \"\"}, {name: A, value: a=b}, {name: T, valueFrom: {fileRef: /etc/token}}, {name: N, valueFrom: {fieldRef: nodeName}}]}")
	files := func(path string) ([]byte, error) {
		if path != "/etc/token" {
			t.Errorf("read %q", path)
		}
		return []byte("secret\n\n"), nil
	}
	got, err := p.Environ("node-1", files)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"B=", "A=a=b", "T=secret\n", "N=node-1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	broken := errors.New("input/output error")
	if _, err := p.Environ("", func(string) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) || !strings.Contains(err.Error(), `"/etc/token" for variable T`) {
		t.Errorf("err = %v", err)
	}
	if _, err := p.Environ("", func(string) ([]byte, error) { return []byte("top\x00secret"), nil }); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("err = %v; want one that does not show the value", err)
	}
}

func TestAPrintedManifestParsesToTheSamePlugin(t *testing.T) {
	t.Parallel()
	c := parse(t, supervisorYAML+"  defaults: {timeouts: {start: 20s}, config: {a: 1}}\n  critical: {namespaces: [], staticPods: false}\n",
		plugin("a", "team: ml", "failurePolicyEvents: []", "events: [CreateContainer]", "delivery: {PostStartContainer: sync}", "permissions: {adjust: []}",
			"selector: {namespaces: {include: [x]}, podSelector: {matchLabels: {a: b}, matchExpressions: [{key: k, operator: In, values: [v]}]}, when: {always: true, annotations: {a: b}}, matchConditions: [{name: n, expression: 'pod.name != \"<\"'}]}"),
		plugin("b", "configText: \"<x>\"", "overdueAfter: 7s", "exec: {path: /opt/x, args: [\"1\"], env: [{name: A, value: \"\"}]}"))
	supervisor, err := c.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Plugins {
		first, err := p.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		again := valid(t, parse(t, string(supervisor), string(first)), p.Name)
		second, err := again.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(first), string(second)); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(p.Spec, again.Spec); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	}
	again, err := parse(t, string(supervisor)).Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(supervisor), string(again)); diff != "" {
		t.Errorf("Supervisor (-first +second):\n%s", diff)
	}
}
