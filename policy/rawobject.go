package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// rawJSON renders a node as JSON: keys sorted, no white space. The error is a Problem without a
// field, or nil.
func rawJSON(n *node) ([]byte, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, n); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeJSON(b *bytes.Buffer, n *node) error {
	switch n.kind {
	case mapping:
		order := make([]int, len(n.keys))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, j int) int { return strings.Compare(n.keys[i].text, n.keys[j].text) })
		b.WriteByte('{')
		for pos, i := range order {
			if pos > 0 {
				b.WriteByte(',')
			}
			writeString(b, n.keys[i].text)
			b.WriteByte(':')
			if err := writeJSON(b, n.values[i]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case sequence:
		b.WriteByte('[')
		for i, v := range n.values {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, v); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case scalar:
		return writeScalar(b, n)
	default:
		return Problem{File: n.file, Line: n.line, Message: "unreadable value"}
	}
}

func writeScalar(b *bytes.Buffer, n *node) error {
	switch n.tag {
	case "!!null":
		b.WriteString("null")
	case "!!bool":
		b.WriteString(strconv.FormatBool(isTrue(n.text)))
	case "!!int":
		if i, err := parseInt(n.text); err == nil {
			b.WriteString(strconv.FormatInt(i, 10))
			return nil
		}
		u, err := strconv.ParseUint(strings.ReplaceAll(n.text, "_", ""), 0, 64)
		if err != nil {
			return Problem{File: n.file, Line: n.line, Message: fmt.Sprintf("the number %s does not fit 64 bits", n.text), Remedy: "quote it, if text will do"}
		}
		b.WriteString(strconv.FormatUint(u, 10))
	case "!!float":
		f, err := parseFloat(n.text)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return Problem{File: n.file, Line: n.line, Message: fmt.Sprintf("JSON has no number for %s", n.text), Remedy: "quote it, if text will do"}
		}
		out, err := json.Marshal(f)
		if err != nil {
			return Problem{File: n.file, Line: n.line, Message: err.Error()}
		}
		b.Write(out)
	default:
		writeString(b, n.text)
	}
	return nil
}

// writeString renders s as a JSON string. HTML characters stay as they are: the reader is a plugin.
func writeString(b *bytes.Buffer, s string) {
	var one bytes.Buffer
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	b.Write(bytes.TrimRight(one.Bytes(), "\n"))
}

func isTrue(text string) bool { return strings.EqualFold(text, "true") }

// parseInt reads what YAML calls an int: sign, 0x, 0o, 0b and underscores.
func parseInt(text string) (int64, error) {
	return strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
}

// parseFloat reads what YAML calls a float, or an int.
func parseFloat(text string) (float64, error) {
	plain := strings.ReplaceAll(text, "_", "")
	switch strings.ToLower(strings.TrimLeft(plain, "+-")) {
	case ".inf":
		if strings.HasPrefix(plain, "-") {
			return math.Inf(-1), nil
		}
		return math.Inf(1), nil
	case ".nan":
		return math.NaN(), nil
	}
	if f, err := strconv.ParseFloat(plain, 64); err == nil {
		return f, nil
	}
	i, err := strconv.ParseInt(plain, 0, 64)
	return float64(i), err
}
