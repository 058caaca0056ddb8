package main

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// narrowHelp has root and its commands print their help in lines of 80 columns, wherever it goes.
func narrowHelp(root *cobra.Command) {
	whole := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		out := cmd.OutOrStdout()
		var b bytes.Buffer
		cmd.SetOut(&b)
		whole(cmd, args)
		cmd.SetOut(out)
		_, _ = out.Write([]byte(narrow(b.String(), usualWidth))) // cobra, too, has nobody to tell
	})
}

// twoColumns is a line of a list: a name, and what it means behind at least two spaces.
var twoColumns = regexp.MustCompile(`^(\s*\S+(?: \S+)*  +)(\S.*)$`)

// narrow breaks the lines of a help text that are too wide between words; further lines begin below the text of the line, which in a list is its second column.
func narrow(text string, width int) string {
	b := paper{width: width}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if columns(line) <= width {
			b.WriteString(line + "\n")
			continue
		}
		prefix, rest := line[:len(line)-len(strings.TrimLeft(line, " \t"))], strings.TrimLeft(line, " \t")
		indent := columns(prefix)
		if parts := twoColumns.FindStringSubmatch(line); parts != nil {
			prefix, rest = parts[1], parts[2]
			indent = columns(prefix)
		}
		hang(&b, prefix, indent, rest)
	}
	return b.String()
}
