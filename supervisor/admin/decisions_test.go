package admin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

func TestDecisionsAreReadAndFollowedOverTheSocket(t *testing.T) {
	t.Parallel()
	j := journal.New(0)
	j.Publish(journal.Decision{Kind: journal.KindEvent, Plugin: "a"}, journal.Decision{Kind: journal.KindEvent, Plugin: "b"})
	c := dial(t, admintest.Served(t, &admintest.Fake{Journal: j}))
	got, err := c.Decisions(t.Context(), journal.Filter{Plugin: "b"})
	if err != nil || len(got) != 1 || got[0].Seq != 2 {
		t.Fatalf("%v, %+v", err, got)
	}
	if none, err := c.Decisions(t.Context(), journal.Filter{Plugin: "b", Outcome: "timeout"}); err != nil || none == nil || len(none) > 0 {
		t.Errorf("%v, %v", err, none)
	}
	enough := errors.New("enough")
	var seen []uint64
	err = c.FollowDecisions(t.Context(), journal.Filter{Last: 1}, func(d journal.Decision) error {
		seen = append(seen, d.Seq)
		switch len(seen) {
		case 1:
			j.Publish(journal.Decision{Kind: journal.KindManual, Manual: "trip"})
		case 2:
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(seen) != 2 || seen[0] != 2 || seen[1] != 3 {
		t.Errorf("%v, %v", err, seen)
	}
}

func TestFollowingEndsWithItsContextAndWithTheService(t *testing.T) {
	t.Parallel()
	j := journal.New(0)
	j.Publish(journal.Decision{Kind: journal.KindEvent})
	socket := admintest.ShortDir(t) + "/admin.sock"
	stop := admintest.Serve(t, socket, &admintest.Fake{Journal: j}, admin.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	err := dial(t, socket).FollowDecisions(ctx, journal.Filter{Last: 1}, func(journal.Decision) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	err = dial(t, socket).FollowDecisions(t.Context(), journal.Filter{Last: 1}, func(journal.Decision) error { go stop(); return nil })
	if err != nil {
		t.Errorf("the end of the service is the error %v", err)
	}
}

// TestAReplyThatIsCutOffIsAnErrorAndNotItsEnd: between two lines, within one, and in order.
func TestAReplyThatIsCutOffIsAnErrorAndNotItsEnd(t *testing.T) {
	t.Parallel()
	const line = `{"seq":1,"kind":"event"}` + "\n"
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	for name, c := range map[string]struct {
		body   string
		broken bool
	}{
		"in order":                 {chunk(line) + "0\r\n\r\n", false},
		"between two lines":        {chunk(line), true},
		"within a line":            {chunk(line + `{"se`), true},
		"in order within a line":   {chunk(line+`{"se`) + "0\r\n\r\n", true},
		"within the chunk of HTTP": {"ff\r\n" + line, true},
	} {
		socket := admintest.ShortDir(t) + "/admin.sock"
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"+c.body)
				_ = conn.Close()
			}
		}()
		got, err := dial(t, socket).Decisions(t.Context(), journal.Filter{})
		if len(got) != 1 || (err != nil) != c.broken || c.broken && !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%s: %d decisions, error %v", name, len(got), err)
		}
		err = dial(t, socket).FollowDecisions(t.Context(), journal.Filter{}, func(journal.Decision) error { return nil })
		if (err != nil) != c.broken {
			t.Errorf("%s: following ends with %v", name, err)
		}
	}
}

func TestAQueryThatIsNotUnderstoodIsRefused(t *testing.T) {
	t.Parallel()
	j := journal.New(0)
	j.Publish(journal.Decision{Kind: journal.KindEvent, Plugin: "left"})
	socket := admintest.Served(t, &admintest.Fake{Journal: j, State: supervisor.Status{Plugins: []supervisor.PluginStatus{{Name: "hosted"}}}})
	for query, want := range map[string]int{
		"": 200, "kind=manual&action=done&notable=true&after=3&last=1": 200, "kind=x": 400, "action=x": 400, "outcome=x": 400, "outcome=timeout": 200, "outcome=required": 200,
		"event=x": 400, "event=CreateContainer": 200, "event=Synchronize": 200, "plugin=a": 404, "plugin=hosted": 200, "plugin=left": 200, "after=-1": 400, "last=x": 400, "notable=perhaps": 400, "plugn=a": 400,
		"plugin=a&plugin=b": 400,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://admin/v1/decisions?"+query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := overSocket(socket).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: status %d, want %d", query, resp.StatusCode, want)
		}
	}
}

func TestTooManyFollowersAreRefused(t *testing.T) {
	t.Parallel()
	j := journal.New(0)
	j.Publish(journal.Decision{Kind: journal.KindEvent})
	socket := admintest.Served(t, &admintest.Fake{Journal: j})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up, ended := make(chan struct{}), make(chan error)
	const tails = 16
	for range tails {
		go func() {
			ended <- dial(t, socket).FollowDecisions(ctx, journal.Filter{Last: 1}, func(journal.Decision) error { up <- struct{}{}; return nil })
		}()
	}
	for range tails {
		<-up
	}
	var req *admin.RequestError
	if err := dial(t, socket).FollowDecisions(t.Context(), journal.Filter{}, nil); !errors.As(err, &req) || req.Status != http.StatusServiceUnavailable {
		t.Errorf("error %v", err)
	}
	cancel()
	for range tails {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a follower ends with %v", err)
		}
	}
}
