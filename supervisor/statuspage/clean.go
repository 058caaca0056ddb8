package statuspage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text of plugins, manifests and pods harmless for a terminal and a page: what cannot be printed, or turns the direction of text, is shown escaped, all on one line.
func Clean(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\ufffd"): // a byte that is no UTF-8
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\t':
			b.WriteByte(' ')
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// cleanJSON cleans each text in encoded JSON, whose keys are names that need none; line ends count as spaces. Almost always nothing is to be done, and then it costs one look at each byte.
func cleanJSON(data []byte) ([]byte, error) {
	if !suspect(data) {
		return data, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("read the page's own answer: %w", err)
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(cleaned(v)); err != nil {
		return nil, fmt.Errorf("encode the page's answer: %w", err)
	}
	return b.Bytes(), nil
}

// suspect reports whether encoded JSON has text that Clean may change: a rune that cannot be printed, or an escape of another than a quote, a backslash or what HTML would take for markup.
func suspect(data []byte) bool {
	if bytes.IndexFunc(data, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) >= 0 {
		return true
	}
	for {
		i := bytes.IndexByte(data, '\\')
		if i < 0 {
			return false
		}
		data = data[i+1:]
		switch {
		case bytes.HasPrefix(data, []byte(`"`)), bytes.HasPrefix(data, []byte(`\`)):
			data = data[1:]
		case bytes.HasPrefix(data, []byte("u003c")), bytes.HasPrefix(data, []byte("u003e")), bytes.HasPrefix(data, []byte("u0026")):
		default:
			return true
		}
	}
}

// cleaned is a decoded JSON value with each text cleaned.
func cleaned(v any) any {
	switch v := v.(type) {
	case string:
		return Clean(strings.Join(strings.FieldsFunc(v, func(r rune) bool { return r == '\n' || r == '\r' }), " "))
	case []any:
		for i := range v {
			v[i] = cleaned(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = cleaned(v[k])
		}
	}
	return v
}

// How many runes of what a plugin said the page shows at a time: a few lines of a card, fewer inside of a sentence. `plugin show` has it whole.
const (
	longest    = 200
	inSentence = 120
)

// bounded is a long text without its middle: an error begins with where it was met, and ends with what it was.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit/2]) + " … " + string(runes[len(runes)-limit/2:])
}
