package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// maxFileSize bounds one file. A manifest is a few kilobytes; the plugin's configuration in it
	// must fit ttrpc's frame of 4 MiB anyway.
	maxFileSize = 4 << 20
	// maxNodes bounds the values of one file after its aliases were expanded. The largest
	// Supervisor document that makes sense, 1,000 teams of 30 values, needs a third of it.
	maxNodes = 100_000
	// maxExpanded bounds the bytes of all scalars of one file after its aliases were expanded: four files' worth.
	maxExpanded = 4 * maxFileSize
	// maxDepth bounds nesting. The deepest field of a manifest lies 7 deep, the rest is for spec.config.
	maxDepth = 100
)

// kind tells what a node is. It is a closed set.
type kind uint8

const (
	scalar kind = iota
	mapping
	sequence
)

// String names the kind as a message says it.
func (k kind) String() string {
	switch k {
	case scalar:
		return "a single value"
	case mapping:
		return "a mapping"
	case sequence:
		return "a list"
	default:
		return "kind(" + strconv.Itoa(int(k)) + ")"
	}
}

// node is one value of a document, free of aliases and merge keys, that knows where it was written.
type node struct {
	kind kind
	// tag is the resolved short YAML tag of a scalar, such as !!str or !!int.
	tag string
	// text is the scalar as written, without quotes.
	text string
	file string
	line int
	// inherited marks what came from the Supervisor document's defaults.
	inherited bool
	// keys and values of a mapping have the same length.
	keys []*node
	// values holds a sequence's items as well.
	values []*node
}

// get returns the value of a mapping's key; nil when there is none.
func (n *node) get(key string) *node {
	if n == nil || n.kind != mapping {
		return nil
	}
	for i, k := range n.keys {
		if k.text == key {
			return n.values[i]
		}
	}
	return nil
}

// isNull says whether the node is YAML's null, which is also what a key without a value has.
func (n *node) isNull() bool { return n.kind == scalar && n.tag == "!!null" }

// parseDocuments splits a file into its documents. Empty documents are left out. When a document
// cannot be read, what comes before it is returned together with the problem.
func parseDocuments(f SourceFile) ([]*node, Problems) {
	fail := func(line int, message, remedy string) Problems {
		return Problems{{File: f.Path, Line: line, Message: message, Remedy: remedy}}
	}
	data := bytes.TrimPrefix(f.Data, []byte("\xef\xbb\xbf"))
	if len(data) > maxFileSize {
		return nil, fail(0, fmt.Sprintf("the file has %d bytes, more than the limit of %d (4 MiB)", len(data), maxFileSize), "split it")
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, fail(1, "the file is UTF-16", "save it as UTF-8")
	}
	if line := invalidUTF8(data); line > 0 {
		return nil, fail(line, "the line is not valid UTF-8", "save the file as UTF-8")
	}
	c := converter{file: f.Path}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var docs []*node
	for {
		var y yaml.Node
		err := dec.Decode(&y)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, Problems{syntaxProblem(f.Path, data, err)}
		}
		n, err := c.convert(&y, 0)
		if err != nil {
			var p Problem
			if !errors.As(err, &p) {
				p = Problem{File: f.Path, Message: err.Error()}
			}
			return docs, Problems{p}
		}
		if n != nil && !n.isNull() {
			docs = append(docs, n)
		}
	}
}

// invalidUTF8 returns the number of the first line that is not valid UTF-8; 0 when all are.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return 0
	}
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			return line
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return line
}

// converter expands aliases and merge keys within bounds.
type converter struct {
	file  string
	nodes int
	bytes int
	// open holds the anchors being expanded, to find one that contains itself.
	open []*yaml.Node
}

func (c *converter) problem(line int, message, remedy string) error {
	return Problem{File: c.file, Line: line, Message: message, Remedy: remedy}
}

func (c *converter) convert(y *yaml.Node, depth int) (*node, error) {
	c.nodes++
	c.bytes += len(y.Value)
	if c.nodes > maxNodes || c.bytes > maxExpanded {
		return nil, c.problem(y.Line, fmt.Sprintf("the file holds more than %d values or %d MiB of text once its aliases are expanded", maxNodes, maxExpanded>>20),
			"write fewer aliases (*name)")
	}
	if depth > maxDepth {
		return nil, c.problem(y.Line, fmt.Sprintf("nested more than %d deep", maxDepth), "make it flatter")
	}
	if tag := y.ShortTag(); y.Style&yaml.TaggedStyle != 0 && tag != "!!str" && tag != "!!map" && tag != "!!seq" {
		return nil, c.problem(y.Line, fmt.Sprintf("the tag %q is not supported", tag), "leave the tag out")
	}
	switch y.Kind {
	case yaml.DocumentNode:
		if len(y.Content) == 0 {
			return nil, nil
		}
		return c.convert(y.Content[0], depth)
	case yaml.AliasNode:
		if slices.Contains(c.open, y.Alias) {
			return nil, c.problem(y.Line, fmt.Sprintf("the alias *%s stands inside its own anchor", y.Value), "write the value out")
		}
		c.open = append(c.open, y.Alias)
		defer func() { c.open = c.open[:len(c.open)-1] }()
		return c.convert(y.Alias, depth+1)
	case yaml.ScalarNode:
		return &node{kind: scalar, tag: y.ShortTag(), text: y.Value, file: c.file, line: y.Line}, nil
	case yaml.SequenceNode:
		n := &node{kind: sequence, file: c.file, line: y.Line, values: make([]*node, 0, len(y.Content))}
		for _, item := range y.Content {
			v, err := c.convert(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.values = append(n.values, v)
		}
		return n, nil
	case yaml.MappingNode:
		return c.mapping(y, depth)
	default:
		return nil, c.problem(y.Line, "unreadable value", "write a mapping, a list or a single value")
	}
}

func (c *converter) mapping(y *yaml.Node, depth int) (*node, error) {
	n := &node{kind: mapping, file: c.file, line: y.Line}
	var merges []*node
	seen := make(map[string]int, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, err := c.convert(y.Content[i], depth+1)
		if err != nil {
			return nil, err
		}
		value, err := c.convert(y.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if key.kind != scalar {
			return nil, c.problem(y.Content[i].Line, "a key must be a single value, not "+key.kind.String(), "write a plain name before the colon")
		}
		if key.tag == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if first, dup := seen[key.text]; dup {
			return nil, c.problem(y.Content[i].Line, fmt.Sprintf("the key %q is written twice, first in line %d", key.text, first), "keep one of them")
		}
		seen[key.text] = y.Content[i].Line
		n.keys, n.values = append(n.keys, key), append(n.values, value)
	}
	for _, m := range merges {
		sources := []*node{m}
		if m.kind == sequence {
			sources = m.values
		}
		for _, src := range sources {
			if src.kind != mapping {
				return nil, c.problem(m.line, "<< takes a mapping or a list of mappings", "write <<: *anchor")
			}
			for i, k := range src.keys {
				if _, has := seen[k.text]; !has {
					seen[k.text] = k.line
					n.keys, n.values = append(n.keys, k), append(n.values, src.values[i])
				}
			}
		}
	}
	return n, nil
}

// overlay lays top over base: mappings merge, everything else is replaced. What comes from base is
// marked as inherited. Neither is changed.
func overlay(base, top *node) *node {
	if base == nil {
		return top
	}
	if top == nil {
		return inherit(base)
	}
	if base.kind != mapping || top.kind != mapping {
		return top
	}
	n := *top
	n.keys, n.values = nil, nil
	below := make(map[string]*node, len(base.keys))
	for i, k := range base.keys {
		below[k.text] = base.values[i]
	}
	above := make(map[string]bool, len(top.keys))
	for i, k := range top.keys {
		above[k.text] = true
		n.keys = append(n.keys, k)
		n.values = append(n.values, overlay(below[k.text], top.values[i]))
	}
	for i, k := range base.keys {
		if !above[k.text] {
			n.keys, n.values = append(n.keys, inherit(k)), append(n.values, inherit(base.values[i]))
		}
	}
	return &n
}

func inherit(n *node) *node {
	c := *n
	c.inherited = true
	c.keys, c.values = nil, nil
	for _, k := range n.keys {
		c.keys = append(c.keys, inherit(k))
	}
	for _, v := range n.values {
		c.values = append(c.values, inherit(v))
	}
	return &c
}

// without returns the mapping without the named keys.
func (n *node) without(keys ...string) *node {
	if n == nil || n.kind != mapping {
		return n
	}
	c := *n
	c.keys, c.values = nil, nil
next:
	for i, k := range n.keys {
		for _, drop := range keys {
			if k.text == drop {
				continue next
			}
		}
		c.keys, c.values = append(c.keys, k), append(c.values, n.values[i])
	}
	return &c
}
