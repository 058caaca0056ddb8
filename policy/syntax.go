package policy

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// blockErrors are the YAML parser's own errors, as opposed to its scanner's: it gives the line where the
// enclosing block starts, counted from 0.
const blockErrors = `^did not find expected (<stream-start>|<document start>|node content|'-' indicator|key|',' or '\]'|',' or '\}')`

// syntaxProblem turns an error of the YAML parser, "yaml: line 3: what", into a Problem.
func syntaxProblem(file string, data []byte, err error) Problem {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := regexp.MustCompile(`(?s)^line (\d+): (.*)$`).FindStringSubmatch(what); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line, what = n, m[2]
		}
	}
	p := Problem{File: file, Line: max(line, 1)}
	switch {
	case regexp.MustCompile(blockErrors).MatchString(what):
		p.Line = line + 1
		p.Message = what + ", in the block that starts here"
		p.Remedy = "check indentation, quotes and brackets in the lines that follow"
	case strings.Contains(what, "cannot start any token"), strings.Contains(what, "tab character"):
		p.Message = what
		p.Remedy = "indent with spaces, not tabs, and quote values that start with @, ` or %"
	case strings.Contains(what, "mapping values are not allowed"):
		p.Message = what
		p.Remedy = "check the indentation of this line and the one above, and quote values that hold a colon and a space"
	case strings.HasPrefix(what, "unknown anchor"):
		p.Message = what
		p.Line = anchorLine(data, what)
		p.Remedy = "define the anchor with & further up in the same document"
	default:
		p.Message = what
		p.Remedy = "check indentation, quotes and brackets around this line"
	}
	p.Message = "not valid YAML: " + p.Message
	return p
}

// anchorLine finds the line of the alias that "unknown anchor 'name' referenced" is about. The
// parser does not tell.
func anchorLine(data []byte, what string) int {
	_, rest, _ := strings.Cut(what, "'")
	name, _, _ := strings.Cut(rest, "'")
	if i := bytes.Index(data, []byte("*"+name)); i >= 0 {
		return 1 + bytes.Count(data[:i], []byte("\n"))
	}
	return 1
}
