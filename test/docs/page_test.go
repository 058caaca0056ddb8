package docs_test

import (
	"fmt"
	"slices"
	"strings"
)

// step is one thing that a page wants done: a block, or a comment for the test.
type step struct {
	line int
	verb verb
	// arg is what follows the verb in a comment; text is the block, or the script of a setup.
	arg, text string
}

// verb is what a step is. It is a closed set.
type verb string

const (
	verbScript     verb = "sh"
	verbConsole    verb = "console"
	verbOther      verb = "other" // a block of another language
	verbCheckout   verb = "checkout"
	verbMeanwhile  verb = "meanwhile"
	verbInterrupt  verb = "interrupt"
	verbEnd        verb = "end"
	verbFile       verb = "file"
	verbExit       verb = "exit"
	verbBackground verb = "background"
	verbSetup      verb = "setup"
	verbReady      verb = "ready"
	verbPod        verb = "pod"
	verbService    verb = "service"
)

// languages are those of blocks that are no commands.
func languages() []string {
	return []string{"yaml", "go", "json", "toml", "text", "mermaid", "promql", "diff"}
}

// verbs are those of comments.
func verbs() []verb {
	return []verb{verbFile, verbExit, verbBackground, verbSetup, verbReady, verbPod, verbService, verbCheckout, verbMeanwhile, verbInterrupt, verbEnd}
}

const comment = "<!-- test: "

// parse returns the steps of a page, and an error for each thing that is wrong with its form.
func parse(page string) (steps []step, wrong []error) {
	lines := strings.Split(page, "\n")
	m := margin{blank: true}
	for i := 0; i < len(lines); i++ {
		line, at := strings.TrimSpace(lines[i]), i+1
		switch {
		case strings.HasPrefix(line, comment):
			var text []string
			for !strings.HasSuffix(line, "-->") && i+1 < len(lines) {
				i++
				line = strings.TrimSpace(lines[i])
				text = append(text, lines[i])
			}
			s, err := parseComment(strings.TrimSpace(lines[at-1]), strings.TrimSuffix(strings.TrimSpace(strings.Join(text, "\n")), "-->"))
			if err != nil {
				wrong = append(wrong, fmt.Errorf("line %d: %w", at, err))
				continue
			}
			s.line = at
			steps = append(steps, s)
		case strings.HasPrefix(line, "```"):
			indent := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
			language := strings.TrimPrefix(line, "```")
			var text []string
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
				text = append(text, lines[i][min(indent, len(lines[i])):])
			}
			s := step{line: at, verb: verb(language), text: strings.Join(text, "\n") + "\n"}
			switch {
			case slices.Contains(languages(), language):
				s.verb = verbOther
				if err := hides(language, s.text); err != nil {
					wrong = append(wrong, fmt.Errorf("line %d: %w", at, err))
				}
			case s.verb != verbScript && s.verb != verbConsole:
				wrong = append(wrong, fmt.Errorf("line %d: the block has the language %q; commands have sh or console, others one of %v", at, language, languages()))
				continue
			}
			steps = append(steps, s)
		default:
			if err := evades(lines[i], m.add(lines[i])); err != nil {
				wrong = append(wrong, fmt.Errorf("line %d: %w", at, err))
			}
		}
	}
	return steps, wrong
}

// parseComment parses a comment by its first line; text is what follows that line.
func parseComment(first, text string) (step, error) {
	first = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(first, comment), "-->"))
	for _, v := range verbs() {
		rest, found := strings.CutPrefix(first, string(v))
		if !found {
			continue
		}
		s := step{verb: v, arg: strings.TrimSpace(strings.TrimPrefix(rest, ":")), text: text}
		if needs := !slices.Contains([]verb{verbBackground, verbSetup, verbService, verbCheckout, verbEnd}, v); needs != (s.arg != "") {
			return s, fmt.Errorf("%q: %s has an argument, or none, and must not", first, v)
		}
		if v == verbSetup && strings.TrimSpace(text) == "" {
			return s, fmt.Errorf("a setup without a script")
		}
		return s, nil
	}
	return step{}, fmt.Errorf("%q is nothing that a page can ask for", first)
}

// command is one of a console, with what it prints; nil if the page does not show it.
type command struct {
	text  string
	shown []string
}

// commands splits a console.
func commands(text string) (out []command, err error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		c, found := strings.CutPrefix(lines[i], "$ ")
		switch {
		case found:
			for strings.HasSuffix(c, "\\") && i+1 < len(lines) {
				i++
				c += "\n" + lines[i]
			}
			out = append(out, command{text: c})
		case len(out) == 0:
			return nil, fmt.Errorf("a console begins with %q", "$ ")
		default:
			out[len(out)-1].shown = append(out[len(out)-1].shown, lines[i])
		}
	}
	return out, nil
}
