package isolation

import (
	"os/exec"
	"testing"
)

func TestAProcessThatEndsByItselfWhileItIsKilledEndedByItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		cause, want  Reason
	}{
		{"exit code, connection lost", "exit 2", ReasonSignal, ReasonExitCode},
		{"clean, connection lost", "exit 0", ReasonSignal, ReasonClean},
		{"killed because the connection was lost", "kill -9 $$", ReasonSignal, ReasonSignal},
		{"killed as hung", "kill -9 $$", ReasonHung, ReasonHung},
		{"stopped", "exit 0", ReasonStopped, ReasonStopped},
		{"by itself", "exit 3", "", ReasonExitCode},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", tt.script)
			_ = cmd.Run() // its status is what is wanted
			i := &Instance{cause: tt.cause, out: &output{}, done: make(chan struct{})}
			i.finish(&process{state: cmd.ProcessState})
			if got := i.Exit().Reason; got != tt.want {
				t.Errorf("reason %s, want %s", got, tt.want)
			}
		})
	}
}
