package isolation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	levelTrace = "trace"
	levelDebug = "debug"
	levelInfo  = "info"
	levelWarn  = "warn"
	levelError = "error"
)

// parseLine makes a Line of raw bytes: its level, if the line is written by a logger that says so, and its text, with what a
// terminal or a log could misunderstand made visible.
func parseLine(raw []byte) Line {
	if len(raw) > 0 && raw[len(raw)-1] == '\r' {
		raw = raw[:len(raw)-1]
	}
	if level, text, ok := parseJSONLine(raw); ok {
		return Line{Level: level, Text: sanitize(text)}
	}
	return Line{Level: textLevel(raw), Text: sanitize(string(raw))}
}

// parseJSONLine understands the lines of hclog (@level, @message) and of log/slog (level, msg).
func parseJSONLine(raw []byte) (level, text string, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return "", "", false
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "", "", false
	}
	for _, keys := range [][3]string{{"@level", "@message", "@timestamp"}, {"level", "msg", "time"}} {
		l, okLevel := fields[keys[0]].(string)
		msg, okMsg := fields[keys[1]].(string)
		if !okLevel || !okMsg {
			continue
		}
		for _, k := range keys {
			delete(fields, k)
		}
		return normalLevel(l), msg + pairs(fields), true
	}
	return "", "", false
}

// pairs renders the other fields of a JSON line as " key=value", in the order of their keys.
func pairs(fields map[string]any) string {
	keys := make([]string, 0, len(fields))
	for k := range fields {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		switch v := fields[k].(type) {
		case string:
			if strings.ContainsAny(v, " \"=\n") || v == "" {
				fmt.Fprintf(&b, " %s=%q", k, v)
			} else {
				fmt.Fprintf(&b, " %s=%s", k, v)
			}
		default:
			data, err := json.Marshal(v)
			if err != nil { // it was decoded from JSON
				continue
			}
			fmt.Fprintf(&b, " %s=%s", k, data)
		}
	}
	return b.String()
}

// textLevel finds the level of a plain line: logfmt's level=info (logrus, as stock NRI plugins write it) or a leading [INFO].
func textLevel(raw []byte) string {
	const window = 256 // the level comes early
	s := string(raw[:min(len(raw), window)])
	if rest, ok := strings.CutPrefix(s, "["); ok {
		if word, _, ok := strings.Cut(rest, "]"); ok {
			return normalLevel(strings.TrimSpace(word))
		}
	}
	for at := 0; ; {
		i := strings.Index(s[at:], "level=")
		if i < 0 {
			return ""
		}
		i += at
		at = i + len("level=")
		if i > 0 && s[i-1] != ' ' {
			continue
		}
		word, _, _ := strings.Cut(s[at:], " ")
		return normalLevel(strings.Trim(word, `"`))
	}
}

// normalLevel maps the names of the usual loggers to ours; an unknown name is no level.
func normalLevel(name string) string {
	switch l := strings.ToLower(name); l {
	case levelTrace, levelDebug, levelInfo, levelWarn, levelError:
		return l
	case "warning":
		return levelWarn
	case "err", "fatal", "panic", "critical":
		return levelError
	case "debug-4":
		return levelTrace
	default:
		return ""
	}
}

// sanitize returns s as valid UTF-8 without control characters other than tab: a plugin's output must not be able to steer
// a terminal or to forge a line of a log.
func sanitize(s string) string {
	clean := true
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if bad(r, n) {
			clean = false
			break
		}
		i += n
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case bad(r, n):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// bad tells control characters (C0 except tab, DEL, C1), line separators, and the marks that reorder text.
func bad(r rune, size int) bool {
	switch {
	case r == utf8.RuneError && size <= 1:
		return true
	case r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x2028, r == 0x2029, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}
