package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fenced is a block of a page, inline is code in its text, which may go on in the next line.
var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inline = regexp.MustCompile("`([^`]+)`")
)

// commandsIn returns what follows the program's name wherever code runs it, such as behind "sudo" or "kubectl exec POD --". Other programs that are told its name, as that of a unit or a
// namespace, do not run it.
func commandsIn(code string) [][]string {
	var out [][]string
	words := strings.Fields(code)
	if len(words) == 0 || slices.ContainsFunc(words[:min(2, len(words))], func(w string) bool { return w == "systemctl" || w == "journalctl" }) {
		return nil
	}
	for i, w := range words {
		switch dir, name := path.Split(w); {
		case name != "nri-supervisor", dir != "" && dir != "./" && path.Base(dir) != "bin" && path.Base(dir) != "sbin":
			continue
		case isValue(words[:i]):
			continue
		}
		var args []string
		for _, a := range words[i+1:] {
			if strings.ContainsAny(a, "|&;<>") {
				break
			}
			if a != "…" {
				args = append(args, a)
			}
		}
		if len(args) > 0 {
			out = append(out, args)
		}
	}
	return out
}

// isValue reports whether a word behind others is the value of a flag: of a program that runs what stands behind its flags it is not.
func isValue(before []string) bool {
	i := len(before) - 1
	if i < 0 || before[i] == "--" || !strings.HasPrefix(before[i], "-") {
		return false
	}
	for i >= 0 && strings.HasPrefix(before[i], "-") {
		i--
	}
	return i < 0 || !slices.Contains([]string{"sudo", "watch", "env", "time", "exec", "nohup"}, before[i])
}

// understood returns why the command line does not take a command that a page shows. A command without flags and arguments may be only its name.
func understood(ctx context.Context, words []string) error {
	root := newRoot(io.Discard, io.Discard)
	cmd, args, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	if err := knownValues(cmd); err != nil {
		return err
	}
	args = cmd.Flags().Args()
	if !cmd.HasParent() && len(args) > 0 {
		return fmt.Errorf("unknown command %q", args[0])
	}
	if len(args) > 0 {
		if err := cmd.ValidateArgs(args); err != nil {
			return err
		}
	}
	return takenValues(ctx, cmd, words)
}

// placeholder is what stands for a value in a text.
var placeholder = regexp.MustCompile(`^[A-Z]+$`)

// knownValues returns an error for a flag's value that is none of those that the shell completes without asking the service.
func knownValues(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		complete, ok := cmd.GetFlagCompletionFunc(f.Name)
		if !ok || f.Name == "plugin" || f.Name == "team" || placeholder.MatchString(f.Value.String()) {
			return
		}
		if known := firstWords(complete(cmd, nil, "")); len(known) > 0 && !slices.Contains(known, f.Value.String()) {
			err = fmt.Errorf("--%s %q is none of %q", f.Name, f.Value, known)
		}
	})
	return err
}

// firstWords are the values that are completed, without what explains them.
func firstWords(list []cobra.Completion, _ cobra.ShellCompDirective) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i], _, _ = strings.Cut(c, "\t")
	}
	return out
}

// takenValues carries out a command with flags that only asks the service, where there is none, and returns an error if it says that it is used in a wrong way.
func takenValues(ctx context.Context, cmd *cobra.Command, words []string) error {
	if cmd.Flags().NFlag() == 0 || cmd.Flags().Lookup("socket") == nil || slices.Contains([]string{"record", "doctor", "run"}, cmd.Name()) {
		return nil
	}
	over, cancel := context.WithCancel(ctx)
	cancel() // what would go on ends at once
	var said strings.Builder
	if run(over, append(slices.Clone(words), "--socket", "/nowhere/admin.sock"), io.Discard, &said) == exitUsage {
		return fmt.Errorf("%s", said.String())
	}
	return nil
}

func TestEachCommandInTheTextOfTheManualsIsUnderstood(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			for _, words := range commandsIn(m[1]) {
				if words[0] == helperCommand { // what the program calls itself as
					continue
				}
				seen++
				if err := understood(t.Context(), words); err != nil {
					t.Errorf("%s: `nri-supervisor %s`: %v", page, strings.Join(words, " "), err)
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d commands were found", seen)
	}
}

func TestACommandThatIsNoneIsNotUnderstood(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"status": true, "status --watch": true, "plugin show": true, "plugin show NAME": true, "bypass": true, "bypass --for 10m": true, "explain NAMESPACE/POD/CONTAINER": true, "log-level debug": true,
		"events --action failed --plugin NAME": true, "events --event CreateContainer": true, "events --outcome OUTCOME": true, "status -o json": true, "run --log-level debug": true,
		"stats": false, "status --wach": false, "status NAME": false, "plugin shwo NAME": false, "plugin restart a b": false, "bypass 10m": false, "log-level loud": false, "missed --plugin": false,
		"bypass --for 48h": false, "bypass --for tomorrow": false, "events --action sideways": false, "events --event CreateContaine": false, "events --outcome bad": false, "events --last -1": false,
		"events --pod a/b/c": false, "status -o yaml": false, "run --log-level loud": false,
	} {
		if err := understood(t.Context(), strings.Fields(text)); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCommandsAreFoundWhereverTheyStand(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"nri-supervisor status": "status", "sudo nri-supervisor statuss": "statuss", "kubectl exec x -- nri-supervisor statuss": "statuss", "/usr/bin/nri-supervisor …": "", "/usr/bin/nri-supervisor statuss": "statuss",
		"ssh NODE sudo /usr/sbin/nri-supervisor missed": "missed", "bin/nri-supervisor check DIR": "check DIR", "./nri-supervisor check DIR | less": "check DIR", "nri-supervisor check && nri-supervisor reload": "check, reload",
		"kubectl -n nri-supervisor exec POD -- nri-supervisor plugin show NAME": "plugin show NAME", "watch -n 2 nri-supervisor status": "status", "sudo -E nri-supervisor statuss": "statuss",
		"nri-supervisor": "", "systemctl edit nri-supervisor --full": "", "journalctl -u nri-supervisor -f": "", "kubectl -n nri-supervisor get pods": "", "kubectl logs ds/nri-supervisor -f": "",
		"/opt/nri-supervisor /x": "", "nri-supervisor: warning:": "", "-supervisor bin/nri-supervisor": "",
	} {
		var found []string
		for _, words := range commandsIn(code) {
			found = append(found, strings.Join(words, " "))
		}
		if got := strings.Join(found, ", "); got != want {
			t.Errorf("%q: found %q, want %q", code, got, want)
		}
	}
}
