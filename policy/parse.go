package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"

	"github.com/nri-supervisor/nri-supervisor/filelook"
)

// supervisorDocument is the whole of a Supervisor document.
type supervisorDocument struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Spec       SupervisorSpec `json:"spec"`
}

// pluginDocument is the whole of a Plugin document.
type pluginDocument struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   pluginMetadata `json:"metadata"`
	Spec       PluginSpec     `json:"spec"`
}

// pluginMetadata names a plugin.
type pluginMetadata struct {
	// Name is the NRI plugin name: letters, digits and hyphens, not starting with a hyphen. Required.
	Name string `json:"name"`
}

// Parse is Load on files in memory: the file whose path is o.ConfigFile holds the Supervisor
// document, all others hold Plugin manifests. Files are taken in the order of their paths.
// It touches the file system only for o.CheckFiles.
func Parse(files []SourceFile, o LoadOptions) (*Config, error) {
	b := newBuilder(o)
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b SourceFile) int { return cmp.Compare(a.Path, b.Path) })
	config := slices.IndexFunc(files, func(f SourceFile) bool { return o.ConfigFile != "" && f.Path == o.ConfigFile })
	switch {
	case config >= 0:
		b.configFile(files[config])
	case o.ConfigFile != "":
		return nil, Problems{{File: o.ConfigFile, Message: "the file is not there", Remedy: "create it with kind: Supervisor"}}
	}
	for i, f := range files {
		if i != config {
			b.pluginFile(f)
		}
	}
	return b.finish()
}

// builder makes a Config of files.
type builder struct {
	options LoadOptions
	hash    *hashWriter

	// supervisor is never nil; usable says whether it can be relied on.
	supervisor *document
	usable     bool
	spec       SupervisorSpec
	defaults   *node
	teams      map[string]*teamCeiling
	critical   globs

	cel     celEnv
	plugins []*candidate
	// files are the problems of files that could not be read to their end.
	files    []InvalidPlugin
	problems Problems
	// missing are the folders that could not be read; lastGood are plugins whose manifests are broken now.
	missing  []string
	lastGood []*Plugin
	// document is the Supervisor document alone.
	document string
}

// candidate is one Plugin document on its way.
type candidate struct {
	doc    *document
	plugin *Plugin
}

// hashWriter hashes names and contents so that no two lists of files look the same.
type hashWriter struct{ sum []byte }

func (h *hashWriter) add(name string, data []byte) {
	inner := sha256.Sum256(data)
	outer := sha256.New()
	outer.Write(h.sum)
	fmt.Fprintf(outer, "%d %s ", len(name), name)
	outer.Write(inner[:])
	h.sum = outer.Sum(nil)
}

func (h *hashWriter) String() string {
	sum := sha256.Sum256(h.sum)
	return hex.EncodeToString(sum[:])
}

func newBuilder(o LoadOptions) *builder {
	if o.Looks == nil {
		o.Looks = &filelook.Looks{}
	}
	b := &builder{
		options:    o,
		hash:       &hashWriter{},
		supervisor: newDocument(&node{kind: mapping}, ""),
		usable:     true,
		spec:       defaultSupervisorSpec(),
		teams:      map[string]*teamCeiling{},
	}
	if o.ConfigFile == "" {
		b.validateSupervisor()
	}
	return b
}

// configFile reads the file that holds the Supervisor document. Plugin documents in it are read as well.
func (b *builder) configFile(f SourceFile) {
	b.hash.add(f.Path, f.Data)
	docs, problems := parseDocuments(f)
	b.problems = append(b.problems, problems...)
	b.usable = len(problems) == 0
	var found *node
	for _, n := range docs {
		switch kind := n.get("kind"); {
		case kind != nil && kind.text == KindPlugin:
			b.addPlugin(n)
		case found != nil && kind != nil && kind.text == KindSupervisor:
			b.usable = false
			b.problems = append(b.problems, Problem{
				File: f.Path, Line: n.line, Field: "kind",
				Message: fmt.Sprintf("a second Supervisor document; the first is in line %d", found.line), Remedy: "keep one of them",
			})
		case found != nil:
			b.usable = false
			b.problems = append(b.problems, kindProblem(n, "", KindPlugin))
		default:
			found = n
			b.supervisorDocument(n)
		}
	}
	if found == nil && b.usable {
		b.usable = false
		b.problems = append(b.problems, Problem{
			File: f.Path, Line: 1, Message: "the file holds no Supervisor document",
			Remedy: "write apiVersion: " + APIVersion + " and kind: Supervisor",
		})
	}
}

// kindProblem says that the document's kind is not the wanted one.
func kindProblem(n *node, plugin, want string) Problem {
	p := Problem{File: n.file, Line: n.line, Field: "kind", Plugin: plugin, Remedy: "write kind: " + want}
	switch k := n.get("kind"); {
	case n.kind != mapping:
		p.Field = ""
		p.Message = fmt.Sprintf("the document is %s, not a mapping", n.kind)
		p.Remedy = "write apiVersion, kind and spec"
	case k == nil:
		p.Message = "kind is missing"
	default:
		p.Line = k.line
		p.Message = fmt.Sprintf("kind is %s, not %s", k.say(), want)
	}
	return p
}

func (b *builder) supervisorDocument(n *node) {
	if kind := n.get("kind"); n.kind != mapping || kind == nil || kind.text != KindSupervisor {
		b.usable = false
		b.problems = append(b.problems, kindProblem(n, "", KindSupervisor))
		return
	}
	d := newDocument(n, "")
	b.supervisor = d
	b.document = n.rendered()
	doc := supervisorDocument{Spec: b.spec}
	d.decode("", n, reflect.ValueOf(&doc).Elem(), "")
	b.spec = doc.Spec
	d.checkAPIVersion(doc.APIVersion)
	b.defaults = n.get("spec").get("defaults")
	b.validateSupervisor()
	b.usable = b.usable && !d.failed()
}

func (d *document) checkAPIVersion(version string) {
	if version != APIVersion && !d.failedUnder("apiVersion") {
		what := fmt.Sprintf("apiVersion is %q", version)
		if version == "" {
			what = "apiVersion is missing"
		}
		d.errorf("apiVersion", "write apiVersion: "+APIVersion, "%s", what)
	}
}

// pluginFile reads a file with Plugin documents.
func (b *builder) pluginFile(f SourceFile) {
	b.hash.add(f.Path, f.Data)
	if len(bytes.Trim(f.Data, "\x00 \t\r\n")) == 0 { // what a full disk or a power cut leaves; it is no wish to remove a plugin, as a file with comments alone is
		b.rejectFile(Problem{File: f.Path, Message: "the file is empty", Remedy: "write the manifest to it, or remove the file to remove its plugins"})
		return
	}
	docs, problems := parseDocuments(f)
	for _, n := range docs {
		kind := n.get("kind")
		if n.kind == mapping && kind != nil && kind.text == KindPlugin {
			b.addPlugin(n)
			continue
		}
		p := kindProblem(n, "", KindPlugin)
		if kind != nil && kind.text == KindSupervisor {
			p.Message, p.Remedy = "a Supervisor document among the plugins", "move it to the configuration file and name that with --config"
		}
		name := scalarText(n.get("metadata").get("name"))
		p.Plugin = name
		team := scalarText(n.get("spec").get("team"))
		b.reject(InvalidPlugin{Name: printable(name), Team: printable(team), File: f.Path, Line: n.line, Problems: Problems{p}.sorted()})
	}
	if len(problems) > 0 {
		b.rejectFile(problems...)
	}
}

// rejectFile reports a file that could not be read, or not to its end.
func (b *builder) rejectFile(problems ...Problem) {
	b.reject(InvalidPlugin{File: problems[0].File, Problems: problems})
}

func (b *builder) reject(i InvalidPlugin) {
	b.files = append(b.files, i)
	b.problems = append(b.problems, i.Problems...)
}

func scalarText(n *node) string {
	if n == nil || n.kind != scalar || n.tag != "!!str" {
		return ""
	}
	return n.text
}

// addPlugin reads one Plugin document. It is validated in finish, when all files are known.
func (b *builder) addPlugin(n *node) {
	name := scalarText(n.get("metadata").get("name"))
	d := newDocument(n, name)
	b.plugins = append(b.plugins, &candidate{doc: d, plugin: &Plugin{Name: name, File: n.file, Line: n.line, compiled: compiled{document: n.rendered()}}})
}

// finish validates across files and makes the Config.
func (b *builder) finish() (*Config, error) {
	for _, c := range b.plugins {
		b.buildPlugin(c)
	}
	b.rejectDuplicates()
	b.rejectSharedSockets()
	b.useLastGood()
	c := &Config{Supervisor: b.spec, Document: b.document, Plugins: b.lastGood, Hash: b.hash.String(), Invalid: b.files, critical: b.critical}
	problems := append(slices.Clone(b.problems), b.supervisor.problems...)
	for _, cand := range b.plugins {
		d, p := cand.doc, cand.plugin
		problems = append(problems, d.problems...)
		if d.failed() {
			c.Invalid = append(c.Invalid, InvalidPlugin{
				Name: printable(p.Name), Team: printable(p.Team), File: p.File, Line: p.Line, Problems: d.problems.sorted(),
			})
			continue
		}
		c.Plugins = append(c.Plugins, p)
	}
	if !b.usable {
		return nil, problems.sorted()
	}
	slices.SortStableFunc(c.Plugins, func(a, b *Plugin) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(c.Invalid, func(a, b InvalidPlugin) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	problems = append(problems, c.TimeoutWarnings(DefaultRuntimeTimeout)...)
	at := b.supervisor.at("spec.requiredPlugins")
	problems = append(problems, c.combinationWarnings(at.file, at.line)...)
	c.Problems = problems.sorted()
	return c, nil
}

// rejectDuplicates makes every plugin invalid whose name another document has too: nobody can
// tell which of them is meant.
func (b *builder) rejectDuplicates() {
	byName := map[string][]*candidate{}
	for _, c := range b.plugins {
		if c.plugin.Name != "" {
			byName[c.plugin.Name] = append(byName[c.plugin.Name], c)
		}
	}
	for name, holders := range byName {
		for i, c := range holders {
			if len(holders) == 1 {
				break
			}
			other := holders[(i+1)%len(holders)].doc.at("metadata.name")
			c.doc.errorf("metadata.name", "give each plugin a name of its own",
				"the name %q is used more than once, also in %s:%d", name, other.file, other.line)
		}
	}
}
