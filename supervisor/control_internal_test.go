package supervisor

import "testing"

func TestManualStatesOfAPluginDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	var m manual
	for _, c := range []struct {
		state string
		on    bool
		want  string
	}{
		{manualTripped, true, "tripped"},
		{manualDisabled, true, "disabled,tripped"},
		{manualDisabled, true, "disabled,tripped"},
		{manualTripped, false, "disabled"},
		{manualTripped, true, "disabled,tripped"},
		{manualDisabled, false, "tripped"},
		{manualTripped, false, ""},
	} {
		if got := m.set("p", c.state, c.on); got != c.want {
			t.Errorf("after %s %v: %q, want %q", c.state, c.on, got, c.want)
		}
	}
	if got := m.set("q", manualTripped, false); got != "" {
		t.Errorf("another plugin is %q", got)
	}
}
