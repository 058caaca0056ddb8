package main

import (
	"strings"
	"testing"
)

func TestHelpFitsIntoEightyColumns(t *testing.T) {
	t.Parallel()
	asked := 0
	var ask func(path ...string)
	ask = func(path ...string) {
		code, stdout, _ := command(t, append(path, "--help")...)
		if code != exitOK || stdout == "" {
			t.Errorf("%v --help: exit code %d, %q", path, code, stdout)
		}
		asked++
		listed := false
		for line := range strings.Lines(stdout) {
			line = strings.TrimSuffix(line, "\n")
			if columns(line) > usualWidth && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%v --help has a line of %d columns: %q", path, columns(line), line)
			}
			switch fields := strings.Fields(line); {
			case line == "Available Commands:":
				listed = true
			case len(fields) == 0:
				listed = false
			case listed && strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") && fields[0] != "help":
				ask(append(append([]string{}, path...), fields[0])...)
			}
		}
	}
	ask()
	if asked < 20 {
		t.Errorf("only %d commands have help", asked)
	}
}

func TestALongLineOfHelpGoesOnBelowItsText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		width    int
		in, want string
	}{
		{32, "short\n", "short\n"},
		{32, "  -o, --out string   where it is written to\n", "  -o, --out string   where it is\n                     written to\n"},
		{28, "a sentence that is too long for it\n", "a sentence that is too long\nfor it\n"},
	} {
		if got := narrow(tt.in, tt.width); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.in, got, tt.want)
		}
	}
}
