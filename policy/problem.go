package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Severity says whether a Problem makes its document unusable. It is a closed set.
type Severity uint8

const (
	// Error makes the plugin, or the Supervisor document, invalid.
	Error Severity = iota
	// Warning is for the operator to read; nothing is refused because of it.
	Warning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	switch s {
	case Error:
		return "error"
	case Warning:
		return "warning"
	default:
		return "severity(" + strconv.Itoa(int(s)) + ")"
	}
}

// Problem is one thing wrong, or worth knowing, in the configuration.
type Problem struct { //nolint:errname // the word of the manual; most are never handled as errors
	// File is the path as given to Load or Parse; empty when no file is concerned.
	File string
	// Line counts from 1; 0 means the file as a whole.
	Line int
	// Field is the path of the field, such as "spec.breaker.openDuration"; it may be empty.
	Field string
	// Plugin is the name of the plugin concerned, as far as it could be read.
	Plugin string
	// Severity tells errors from warnings.
	Severity Severity
	// Message says what is wrong, without a full stop.
	Message string
	// Remedy says what to write instead. It may be empty.
	Remedy string
}

// Error renders the problem as "file:line: field: what; remedy", leaving out what is unknown.
// A warning has "warning: " before what.
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			b.WriteByte(':')
			b.WriteString(strconv.Itoa(p.Line))
		}
		b.WriteString(": ")
	}
	if p.Severity == Warning {
		b.WriteString("warning: ")
	}
	if p.Field != "" {
		b.WriteString(p.Field)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	if p.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(p.Remedy)
	}
	return b.String()
}

// Problems lists everything found wrong, ordered by file, line, field. As an error it
// renders one problem a line. Problem values in it are comparable with errors.As.
type Problems []Problem //nolint:errname // as Problem

// Error renders one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.Is and errors.As access to each Problem.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// Errors returns the problems of severity Error, in order; nil when there is none.
func (ps Problems) Errors() Problems {
	var out Problems
	for _, p := range ps {
		if p.Severity == Error {
			out = append(out, p)
		}
	}
	return out
}

// maxMessage bounds a message, in bytes: three lines of a wide terminal and then some.
const maxMessage = 1000

// printable is the text with everything that is not printable escaped, and cut at maxMessage: a manifest's
// content goes to terminals and logs.
func printable(s string) string {
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			quoted := strconv.Quote(s)
			return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
		}
	}
	return s
}

// sorted returns the problems in their documented order, fit to be printed.
func (ps Problems) sorted() Problems {
	for i := range ps {
		ps[i].Field, ps[i].Plugin = printable(ps[i].Field), printable(ps[i].Plugin)
		ps[i].Message, ps[i].Remedy = printable(ps[i].Message), printable(ps[i].Remedy)
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return ps
}
