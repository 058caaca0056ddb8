package supervisor

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// quoting is a start that failed, whose error quotes the last line of output.
type quoting struct{ error string }

func (q quoting) Error() string { return q.error }

func (quoting) StartExit() Exit { return Exit{Output: []string{"listening", "token s3cret is wrong"}} }

// TestThePageHasNothingThatAPluginPrinted, neither of a process that ended nor of one that never came up, while the command line shows it.
func TestThePageHasNothingThatAPluginPrinted(t *testing.T) {
	t.Parallel()
	const words = "token s3cret is wrong"
	for name, c := range map[string]struct {
		start error
		want  string // of the last error on the page
	}{
		"a start that failed": {quoting{"handshake: it exited with code 2 before it was ready, last output: \"" + words + "\""}, "handshake: it exited with code 2 before it was ready"},
		"no handshake":        {quoting{"handshake: its first line on stdout is no handshake: \"" + words + "\": nothing may be printed there"}, "handshake: its first line on stdout is no handshake"},
		"an exit":             {nil, "exit code 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := begin(t, load(t, [2]string{"p", sel("x") + "  restart: {backoff: 1m, maxBackoff: 1m}\n"}), nil, state.Loaded{}, makers{
				"p": func(int) (*fakePlugin, error) { return &fakePlugin{}, c.start },
			})
			if err := f.rt.accept().synchronize(nil, nil); err != nil {
				t.Fatal(err)
			}
			if c.start == nil {
				f.ready("p")
				f.l.inc("p").endWith(Exit{Reason: "exit_code", Detail: "exit code 2", Output: []string{words}})
			}
			f.eventually("the exit", func() bool { return len(f.s.Status().Plugins[0].Exits) == 1 })
			f.eventually("the next start", func() bool {
				p := f.s.Status().Plugins[0]
				return p.State == "backoff" && p.NextStart.After(time.Now()) && p.NextStart.Before(time.Now().Add(time.Minute))
			})
			if shown := f.s.Status().Plugins[0]; !strings.Contains(shown.LastError, words) {
				t.Errorf("the command line shows the last error %q", shown.LastError)
			}
			page, err := json.Marshal(f.s.Overview())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(page), words) {
				t.Errorf("the page has what the plugin printed:\n%s", page)
			}
			if there, said := f.s.Status().Plugins[0].Exits[0], f.s.Overview().Plugins[0].Exits[0]; said.Withheld != len(there.Output) || there.Withheld != 0 {
				t.Errorf("the page says that %d lines are to be read elsewhere, of %d", said.Withheld, len(there.Output))
			}
			if got := f.s.Overview().Plugins[0].LastError; got != c.want {
				t.Errorf("the page has the last error %q, want %q", got, c.want)
			}
		})
	}
}

// TestThePageHasTheNewestContainersOfEachPlugin, also of one that misses few beside one that misses many.
func TestThePageHasTheNewestContainersOfEachPlugin(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	var all []MissedWork
	for plugin, n := range map[string]int{"many": 2 * overviewMissed, "few": 2, "some": 2 * overviewEach} {
		for i := range n {
			age := time.Duration(i) * time.Second // the newest first
			if plugin != "many" {
				age += time.Hour
			}
			all = append(all, MissedWork{Plugin: plugin, At: begin.Add(-age)})
		}
	}
	got := latestMissed(all)
	count, oldest := map[string]int{}, map[string]time.Time{}
	for i, m := range got {
		if i > 0 && m.At.After(got[i-1].At) {
			t.Errorf("%d is newer than the one before", i)
		}
		count[m.Plugin]++
		oldest[m.Plugin] = m.At
	}
	if len(got) != overviewMissed || count["few"] != 2 || count["some"] != overviewEach || !oldest["some"].Equal(begin.Add(-time.Hour-(overviewEach-1)*time.Second)) {
		t.Errorf("%d in all, %v, the oldest %v", len(got), count, oldest)
	}
	if got := latestMissed(nil); len(got) != 0 {
		t.Errorf("of none it picks %v", got)
	}
}

// TestAPluginThatNobodyAttachedSaysWhereItIsAwaited, until it comes.
func TestAPluginThatNobodyAttachedSaysWhereItIsAwaited(t *testing.T) {
	t.Parallel()
	cfg := load(t, [2]string{"p", sel("x")})
	cfg.Plugin("p").Spec.Exec, cfg.Plugin("p").Spec.Attach = nil, &policy.AttachSpec{Socket: "/run/p.sock"}
	comes := make(chan struct{})
	come := sync.OnceFunc(func() { close(comes) })
	f := begin(t, cfg, nil, state.Loaded{}, makers{"p": func(int) (*fakePlugin, error) { <-comes; return &fakePlugin{}, nil }})
	t.Cleanup(come)
	f.eventually("it is awaited", func() bool { return f.s.Status().Plugins[0].Awaited == "/run/p.sock" })
	come()
	if err := f.rt.accept().synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.eventually("it is there", func() bool { p := f.s.Status().Plugins[0]; return p.InService() && p.Awaited == "" })
}
