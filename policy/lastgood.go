package policy

import (
	"encoding/json"
	"slices"
	"strings"
)

// GoodManifest is a manifest as it was when it was last valid, with all that is needed to make the plugin of it again. It is a plain value, fit for JSON.
type GoodManifest struct {
	// Name is the plugin's name.
	Name string `json:"name"`
	// File and Line say where the manifest started.
	File string `json:"file"`
	Line int    `json:"line"`
	// Document is the manifest without the defaults of the Supervisor document, as one YAML document.
	Document string `json:"document"`
	// ConfigData is what the plugin's configuration was.
	ConfigData string `json:"configData"`
	// Hosted says that the supervisor hosts the plugin: it looks at the files of the manifest at each start itself, and what is wrong with them is no reason to go on as if there was no plugin.
	Hosted bool `json:"-"`
}

// Good returns the manifest of the plugin, for LoadOptions.LastGood.
func (p *Plugin) Good() GoodManifest {
	return GoodManifest{Name: p.Name, File: p.File, Line: p.Line, Document: p.document, ConfigData: p.configData}
}

// SameButName reports whether two manifests differ in nothing but the name and the place where they stand.
func (g GoodManifest) SameButName(o GoodManifest) bool {
	a, b := g.unnamed(), o.unnamed()
	return a != "" && a == b && g.ConfigData == o.ConfigData
}

// unnamed is the document without the plugin's name; empty if it cannot be read.
func (g GoodManifest) unnamed() string {
	docs, problems := parseDocuments(SourceFile{Path: g.File, Data: []byte(g.Document)})
	if len(problems) > 0 || len(docs) != 1 {
		return ""
	}
	if name := docs[0].get("metadata").get("name"); name != nil {
		name.text = ""
	}
	return docs[0].rendered()
}

// useLastGood puts the last good version of a manifest in the place of a broken one: one of the same name, or one that stood in a file, or a folder, that cannot be read.
// It is held against today's ceilings and files like any other. The problems of the broken one stay reported.
func (b *builder) useLastGood() {
	if len(b.options.LastGood) == 0 {
		return
	}
	valid, broken, files := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range b.plugins {
		if c.doc.failed() {
			broken[c.plugin.Name] = true
		} else {
			valid[c.plugin.Name] = true
		}
	}
	for _, f := range b.files {
		if f.Name == "" {
			files[f.File] = true
		} else {
			broken[f.Name] = true
		}
	}
	for _, g := range b.options.LastGood {
		unreadable := files[g.File] || slices.ContainsFunc(b.missing, func(dir string) bool { return g.File == dir || strings.HasPrefix(g.File, dir+"/") })
		if valid[g.Name] || !broken[g.Name] && !unreadable {
			continue
		}
		if p := b.again(g); p != nil {
			valid[g.Name] = true
			b.lastGood = append(b.lastGood, p)
		}
	}
}

// again makes the plugin of a manifest that was good; nil when it is not good any more.
func (b *builder) again(g GoodManifest) *Plugin {
	docs, problems := parseDocuments(SourceFile{Path: g.File, Data: []byte(g.Document)})
	if len(problems) > 0 || len(docs) != 1 {
		return nil
	}
	c := &candidate{doc: newDocument(docs[0], g.Name), plugin: &Plugin{Name: g.Name, File: g.File, Line: g.Line, LastGood: true, compiled: compiled{document: g.Document}}}
	c.plugin.goodData, c.plugin.hosted = &g.ConfigData, g.Hosted
	b.buildPlugin(c)
	if c.doc.failed() {
		for _, p := range c.doc.problems.Errors() {
			p.Line, p.Message = 0, "the last good version of the manifest cannot be used either: "+p.Message
			b.problems = append(b.problems, p)
		}
		return nil
	}
	return c.plugin
}

// render writes the node as one line of YAML that means the same.
func (n *node) render(b *strings.Builder) {
	switch n.kind {
	case mapping:
		b.WriteByte('{')
		for i, k := range n.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			k.render(b)
			b.WriteString(": ")
			n.values[i].render(b)
		}
		b.WriteByte('}')
	case sequence:
		b.WriteByte('[')
		for i, v := range n.values {
			if i > 0 {
				b.WriteString(", ")
			}
			v.render(b)
		}
		b.WriteByte(']')
	case scalar:
		switch n.tag {
		case "!!null":
			b.WriteString("null")
		case "!!int", "!!float", "!!bool":
			b.WriteString(n.text)
		case "!!str":
			quoted, _ := json.Marshal(n.text) // valid UTF-8 always can be
			b.Write(quoted)
		default:
			b.WriteString(n.text)
		}
	}
}

func (n *node) rendered() string {
	var b strings.Builder
	n.render(&b)
	return b.String()
}
