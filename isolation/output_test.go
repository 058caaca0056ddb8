package isolation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

func TestWhatAHandlerPrintsIsOutput(t *testing.T) {
	t.Parallel()
	for _, protocol := range []isolation.Protocol{isolation.GoPlugin, isolation.NRI} {
		t.Run(protocol.String(), func(t *testing.T) {
			t.Parallel()
			out := newLines()
			s := spec(t, protocol, map[isolation.Protocol]string{isolation.GoPlugin: "sdk", isolation.NRI: "stock"}[protocol])
			s.OnOutput = out.add
			i := start(t, s)
			configure(t, i, "print")
			if l := out.wait(t, withText("from stdout")); l.Stream != isolation.Stdout || l.Text != "from stdout" || l.PID != i.PID() {
				t.Errorf("line %+v", l)
			}
			if l := out.wait(t, withText("from stderr")); l.Stream != isolation.Stderr || l.Text != "from stderr" {
				t.Errorf("line %+v", l)
			}
		})
	}
}

func TestTheHandshakeIsNotShown(t *testing.T) {
	t.Parallel()
	out := newLines()
	s := spec(t, isolation.GoPlugin, "sdk")
	s.OnOutput = out.add
	start(t, s).Stop(t.Context())
	for _, l := range out.get() {
		if strings.Contains(l.Text, "|grpc|") {
			t.Errorf("line %+v", l)
		}
	}
}

func TestAFloodIsReadToItsEndAndLimited(t *testing.T) {
	t.Parallel()
	out := newLines()
	s := spec(t, isolation.GoPlugin, "sdk")
	s.OnOutput = out.add
	i := startAndConfigure(t, s)
	began := time.Now()
	if _, err := create(t, i, "flood"); err != nil {
		t.Fatal(err)
	}
	const flood = 100_000
	shown, dropped := 0, 0
	count := func() int {
		shown, dropped = 0, 0
		for _, l := range out.get() {
			dropped += l.Dropped
			if strings.HasPrefix(l.Text, "xxx") {
				shown++
			}
		}
		return shown + dropped
	}
	// Each line is accounted for, also while the plugin is silent after it.
	eventually(t, "all lines are shown or counted", func() bool { return count() >= flood })
	i.Stop(t.Context())
	took := time.Since(began)
	if total := count(); total > flood+10 { // a few other lines can be dropped as well
		t.Errorf("%d lines shown, %d dropped, %d written", shown, dropped, flood)
	}
	if most := isolation.LineBurst + int(took.Seconds()+1)*isolation.LineRate; shown > most {
		t.Errorf("%d lines shown in %s, at most %d may be", shown, took, most)
	}
}

func TestALongLineIsCutAndTheNextOneIsNot(t *testing.T) {
	t.Parallel()
	out := newLines()
	s := spec(t, isolation.GoPlugin, "sdk")
	s.OnOutput = out.add
	i := startAndConfigure(t, s)
	if _, err := create(t, i, "long"); err != nil {
		t.Fatal(err)
	}
	if l := out.wait(t, withText("yyy")); !l.Truncated || len(l.Text) != isolation.MaxLine {
		t.Errorf("truncated %v, %d bytes", l.Truncated, len(l.Text))
	}
	configure(t, i, "print")
	if l := out.wait(t, withText("from stdout")); l.Truncated {
		t.Error("the next line is marked as truncated")
	}
}
