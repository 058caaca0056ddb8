package recording

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

var (
	// namedSecret is a name that sounds like a secret's with what follows it as a value.
	namedSecret = regexp.MustCompile(secretName.String() + `[A-Za-z0-9_.-]*["']?\s*[:=]`)
	// assignment is a variable with its value.
	assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=.`)
	// variables is the name of a list or map of variables.
	variables = regexp.MustCompile(`(?i)^(env|environ|environment|vars|variables|env[-_]?vars)$`)
	// word is a run of letters and digits as long as keys and digests are; names that people give are shorter, or have dashes.
	word = regexp.MustCompile(`[A-Za-z0-9]{20,}`)
	// encoded is what may be base64, of the usual and of the URL's alphabet.
	encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}={0,2}`)
	letter  = regexp.MustCompile(`[A-Za-z]`)
	digit   = regexp.MustCompile(`[0-9]`)
)

// deepest is how deep JSON is looked into; what lies below is taken out.
const deepest = 16

// ids are the ids and uids of an event's pods and containers: long random words that are no secret.
type ids map[string]bool

func idsOf(e *Event) ids {
	known := ids{}
	for _, p := range append([]*api.PodSandbox{e.Pod}, e.Pods...) {
		known[p.GetId()], known[p.GetUid()] = true, true
	}
	for _, c := range append([]*api.Container{e.Container}, e.Containers...) {
		known[c.GetId()], known[c.GetPodSandboxId()] = true, true
	}
	return known
}

// redactText returns a text without what may be secret in it: JSON loses single values, any other text is kept or taken out whole.
func (known ids) redactText(text string) string { return known.redactTextAt(text, 0) }

func (known ids) redactTextAt(text string, depth int) string {
	trimmed := strings.TrimSpace(text)
	if structured := strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "["); structured {
		return known.redactJSON(trimmed, text, depth)
	}
	if strings.HasPrefix(trimmed, `"`) && depth < deepest { // JSON of a text, which may be JSON again
		var inner string
		if json.Unmarshal([]byte(trimmed), &inner) == nil && known.redactTextAt(inner, depth+1) != inner {
			return Redacted
		}
	}
	if known.suspicious(text) || strings.Contains(trimmed, "\n") && strings.Contains(trimmed, ":") { // a document in YAML, or nearly
		return Redacted
	}
	return text
}

// suspicious reports whether a text may hold a secret.
func (known ids) suspicious(text string) bool {
	if known[text] {
		return false
	}
	if secretValue.MatchString(text) || namedSecret.MatchString(text) {
		return true
	}
	for _, w := range word.FindAllString(text, -1) {
		if letter.MatchString(w) && digit.MatchString(w) && !known[w] {
			return true
		}
	}
	for _, w := range encoded.FindAllString(text, -1) {
		if !known[w] && hidesText(w) {
			return true
		}
	}
	return false
}

// hidesText reports whether the word is readable text in base64. Words that people write are not: they decode to bytes that nobody can read.
func hidesText(w string) bool {
	w = strings.TrimRight(w, "=")
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := e.DecodeString(w); err == nil && len(b) > 0 && len(bytes.TrimFunc(b, readable)) == 0 {
			return true
		}
	}
	return false
}

// readable reports whether a text of people, in ASCII, may have the character.
func readable(r rune) bool { return r >= ' ' && r <= '~' || r == '\n' || r == '\t' || r == '\r' }

// redactJSON takes single values out of JSON. What begins like JSON and is none is taken out whole.
func (known ids) redactJSON(trimmed, text string, depth int) string {
	dec := json.NewDecoder(strings.NewReader(trimmed))
	dec.UseNumber()
	var v any
	if depth >= deepest || dec.Decode(&v) != nil || dec.More() {
		return Redacted
	}
	changed := false
	v = known.redactValue(v, depth, &changed)
	if !changed {
		return text // as it was, byte by byte
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return Redacted
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// redactValue redacts a value within JSON, in place where it can.
func (known ids) redactValue(v any, depth int, changed *bool) any {
	if depth >= deepest {
		*changed = true
		return Redacted
	}
	switch v := v.(type) {
	case map[string]any:
		_, hasName := v["name"]
		for k, below := range v {
			switch {
			case k == lastApplied:
				delete(v, k)
				*changed = true
			case secretName.MatchString(k), hasName && (k == "value" || k == "valueFrom"):
				v[k], *changed = Redacted, true
			case variables.MatchString(k):
				v[k] = withoutLeaves(below, changed)
			default:
				v[k] = known.redactValue(below, depth+1, changed)
			}
		}
	case []any:
		for i := range v {
			v[i] = known.redactValue(v[i], depth+1, changed)
		}
	case string:
		if m := assignment.FindStringSubmatch(v); m != nil {
			*changed = true
			return m[1] + "=" + Redacted
		}
		if out := known.redactTextAt(v, depth+1); out != v {
			*changed = true
			return out
		}
	}
	return v
}

// withoutLeaves takes out the values of a list or map of variables and leaves their names.
func withoutLeaves(v any, changed *bool) any {
	switch v := v.(type) {
	case map[string]any:
		for k, below := range v {
			if name, ok := below.(string); ok && k == "name" {
				v[k] = name
				continue
			}
			v[k] = withoutLeaves(below, changed)
		}
		return v
	case []any:
		for i := range v {
			v[i] = withoutLeaves(v[i], changed)
		}
		return v
	case string:
		*changed = true
		if m := assignment.FindStringSubmatch(v); m != nil {
			return m[1] + "=" + Redacted
		}
		return Redacted
	case nil:
		return nil
	}
	*changed = true
	return Redacted
}
