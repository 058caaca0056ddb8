package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
)

// errUnknown is what the supervisor returns for a name that it does not host.
var errUnknown = fmt.Errorf("%w: it", supervisor.ErrUnknownPlugin)

func TestEachRequestIsAnsweredWithItsStatusCode(t *testing.T) {
	t.Parallel()
	uid := os.Geteuid()
	plugins := []supervisor.PluginStatus{{Name: "a"}, {Name: "b"}, {Name: "bad", Problems: []string{"bad.yaml:1: wrong"}}}
	for _, c := range []struct {
		name         string
		method, path string
		body         string
		act          error // of the supervisor
		code         int
		want         string // the reply, or what an error says and hints at
		did          string
	}{
		{name: "status", method: "GET", path: "/v1/status", code: 200},
		{name: "missed", method: "GET", path: "/v1/missed", code: 200, want: "[]"},
		{name: "an action", method: "POST", path: "/v1/plugins/a/trip", code: 200, want: `{"plugin":"a","action":"trip"}`, did: fmt.Sprintf("trip \"a\" uid %d", uid)},
		{name: "an action with a body", method: "POST", path: "/v1/plugins/a/trip", body: "{}", code: 200, want: `{"plugin":"a","action":"trip"}`, did: fmt.Sprintf("trip \"a\" uid %d", uid)},
		{name: "a bypass", method: "POST", path: "/v1/bypass", body: `{"for":"10m"}`, code: 200, want: `{"bypassUntil":"2026-11-30T03:22:00Z"}`, did: fmt.Sprintf("bypass 10m0s uid %d", uid)},
		{name: "the longest bypass", method: "POST", path: "/v1/bypass", body: `{"for":"24h"}`, code: 200, want: `{"bypassUntil":"2026-12-01T03:12:00Z"}`, did: fmt.Sprintf("bypass 24h0m0s uid %d", uid)},
		{name: "the end of a bypass", method: "POST", path: "/v1/bypass", body: `{"for":"0s"}`, code: 200, want: `{"bypassUntil":null}`, did: fmt.Sprintf("bypass 0s uid %d", uid)},

		{name: "a reload", method: "POST", path: "/v1/reload", code: 200, want: `{"result":"partial","hash":"","changes":[{"plugin":"a","change":"added","how":"started"}],"unchanged":0}`, did: fmt.Sprintf("reload by uid %d", uid)},
		{name: "a reload that cannot be", method: "POST", path: "/v1/reload", act: errors.New("no files"), code: 409, want: "no files", did: fmt.Sprintf("reload by uid %d", uid)},
		{name: "a reload by GET", method: "GET", path: "/v1/reload", code: 405, want: `"/v1/reload" does not take GET | use POST`},

		{name: "an unknown plugin", method: "POST", path: "/v1/plugins/c/trip", act: errUnknown, code: 404, want: `no such plugin: "c" | known are: a, b`, did: fmt.Sprintf("trip \"c\" uid %d", uid)},
		{name: "a name with a slash", method: "POST", path: "/v1/plugins/a%2Fb/trip", act: errUnknown, code: 404, want: `no such plugin: "a/b" | known are: a, b`, did: fmt.Sprintf("trip \"a/b\" uid %d", uid)},
		{
			name: "a plugin with an invalid manifest", method: "POST", path: "/v1/plugins/bad/enable", act: errUnknown, code: 409,
			want: `plugin "bad" does not run: its manifest is invalid | bad.yaml:1: wrong | mend the manifest: nri-supervisor check | then: nri-supervisor reload`, did: fmt.Sprintf("enable \"bad\" uid %d", uid),
		},
		{name: "an action that the state rules out", method: "POST", path: "/v1/plugins/a/restart", act: errors.New("it is disabled"), code: 409, want: "it is disabled", did: fmt.Sprintf("restart \"a\" uid %d", uid)},
		{name: "an unknown action", method: "POST", path: "/v1/plugins/a/kill", code: 400, want: `unknown action "kill" | use one of: restart, enable, disable, trip, reset, unquarantine`},
		{name: "an unknown path", method: "GET", path: "/v1/pods", code: 404, want: `no such path: "/v1/pods" | the command line and the service may be of different versions`},
		{name: "the root", method: "GET", path: "/", code: 404, want: `no such path: "/" | the command line and the service may be of different versions`},
		{name: "half a path", method: "POST", path: "/v1/plugins/a", code: 404, want: `no such path: "/v1/plugins/a" | the command line and the service may be of different versions`},
		{name: "a change by GET", method: "GET", path: "/v1/plugins/a/disable", code: 405, want: `"/v1/plugins/a/disable" does not take GET | use POST`},
		{name: "a bypass by PUT", method: "PUT", path: "/v1/bypass", body: `{"for":"10m"}`, code: 405, want: `"/v1/bypass" does not take PUT | use POST`},
		{name: "a status by POST", method: "POST", path: "/v1/status", code: 405, want: `"/v1/status" does not take POST | use GET`},

		{name: "no body", method: "POST", path: "/v1/bypass", code: 400, want: "read the body: EOF | "},
		{name: "no JSON", method: "POST", path: "/v1/bypass", body: "10m", code: 400, want: "read the body: "},
		{name: "no duration", method: "POST", path: "/v1/bypass", body: "{}", code: 400, want: `"for" is missing | write {"for":"10m"}, at most 24h`},
		{name: "null", method: "POST", path: "/v1/bypass", body: "null", code: 400, want: `"for" is missing | `},
		{name: "another field", method: "POST", path: "/v1/bypass", body: `{"for":"10m","until":"x"}`, code: 400, want: `read the body: json: unknown field "until" | `},
		{name: "two values", method: "POST", path: "/v1/bypass", body: `{"for":"10m"}{"for":"0s"}`, code: 400, want: "more than one JSON value in the body | "},
		{name: "a number", method: "POST", path: "/v1/bypass", body: `{"for":10}`, code: 400, want: "read the body: json: "},
		{name: "a number as text", method: "POST", path: "/v1/bypass", body: `{"for":"10"}`, code: 400, want: `"for" is "10", which is no duration | `},
		{name: "below zero", method: "POST", path: "/v1/bypass", body: `{"for":"-1s"}`, code: 400, want: `"for" is -1s, which is below zero | `},
		{name: "more than a day", method: "POST", path: "/v1/bypass", body: `{"for":"24h0m1s"}`, code: 400, want: `"for" is 24h0m1s, more than 24h0m0s | `},
		{name: "a large body", method: "POST", path: "/v1/bypass", body: `{"for":"` + strings.Repeat(" ", 5000) + `"}`, code: 413, want: "the body has more than 4096 bytes | "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			api := &admintest.Fake{Err: c.act, Report: aReload(), State: supervisor.Status{Plugins: plugins}}
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://x"+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := overSocket(admintest.Served(t, api)).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.code || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("status %d, type %q; want %d and JSON", resp.StatusCode, resp.Header.Get("Content-Type"), c.code)
			}
			got := strings.TrimSpace(string(body))
			if c.code != http.StatusOK {
				var reply admin.ErrorReply
				if err := json.Unmarshal(body, &reply); err != nil {
					t.Fatalf("%v in %q", err, body)
				}
				got = strings.Join(append([]string{reply.Error}, reply.Hints...), " | ")
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("reply %q, want %q", got, c.want)
			}
			if did := strings.Join(api.Take(), ", "); did != c.did {
				t.Errorf("the supervisor was asked for %q, want %q", did, c.did)
			}
		})
	}
}

func TestClientReturnsWhatTheSupervisorSays(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 3, 0, 0, 5, time.UTC)
	api := &admintest.Fake{
		State: supervisor.Status{
			Version: "v1", Started: at, Pods: 3, Plugins: []supervisor.PluginStatus{
				{Name: "a", Since: at, MissedBy: []supervisor.ReasonSum{{Reason: "timeout", Count: 2}, {Reason: "busy", Count: 1}}, Exits: []supervisor.ExitRecord{{PID: 3, Output: []string{"<&>"}, At: at}}},
			},
		},
		Missing: []supervisor.MissedWork{{Namespace: "ns", Pod: "p", Container: "c", ContainerID: "id", Plugin: "a", Team: "t", Reason: "busy", At: at}},
	}
	c := dial(t, admintest.Served(t, api))
	st, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := api.State
	if diff := cmp.Diff(want, st); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	missed, err := c.Missed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(api.Missing, missed); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
	if reply, err := c.Act(t.Context(), "a", "reset"); err != nil || reply != (admin.ActionReply{Plugin: "a", Action: "reset"}) {
		t.Errorf("reply %v, error %v", reply, err)
	}
	if reply, err := c.Bypass(t.Context(), 90*time.Minute); err != nil || reply.Until == nil || !reply.Until.Equal(admintest.Now().Add(90*time.Minute)) {
		t.Errorf("reply %v, error %v", reply, err)
	}
	if reply, err := c.Bypass(t.Context(), 0); err != nil || reply.Until != nil {
		t.Errorf("reply %v, error %v", reply, err)
	}
	uid := os.Geteuid()
	if diff := cmp.Diff([]string{fmt.Sprintf("reset \"a\" uid %d", uid), fmt.Sprintf("bypass 1h30m0s uid %d", uid), fmt.Sprintf("bypass 0s uid %d", uid)}, api.Take()); diff != "" {
		t.Errorf("asked of the supervisor (-want +got):\n%s", diff)
	}
}

func TestClientKeepsNamesOutOfThePath(t *testing.T) {
	t.Parallel()
	api := &admintest.Fake{Err: errUnknown}
	c := dial(t, admintest.Served(t, api))
	for _, name := range []string{"", ".", "..", "../bypass", "a/../b", "a?b", "a#b", "a%2Fb", "a b", "ä\x00"} {
		_, err := c.Act(t.Context(), name, "disable")
		var req *admin.RequestError
		if !errors.As(err, &req) || req.Status != http.StatusNotFound || req.Message != fmt.Sprintf("no such plugin: %q", name) {
			t.Errorf("%q: error %v", name, err)
		}
		for _, did := range api.Take() {
			if want := fmt.Sprintf("disable %q uid %d", name, os.Geteuid()); did != want {
				t.Errorf("%q: the supervisor was asked for %q", name, did)
			}
		}
	}
}

func TestClientReturnsRefusalsWithTheirHints(t *testing.T) {
	t.Parallel()
	c := dial(t, admintest.Served(t, &admintest.Fake{Err: errUnknown, State: supervisor.Status{Plugins: []supervisor.PluginStatus{{Name: "a"}}}}))
	_, err := c.Act(t.Context(), "b", "trip")
	var req *admin.RequestError
	if !errors.As(err, &req) {
		t.Fatalf("error %v", err)
	}
	if req.Status != http.StatusNotFound || req.Error() != `no such plugin: "b"` || len(req.Hints) != 1 || req.Hints[0] != "known are: a" {
		t.Errorf("error %+v", req)
	}
	if _, err := c.Bypass(t.Context(), admin.MaxBypass+1); !errors.As(err, &req) || req.Status != http.StatusBadRequest {
		t.Errorf("error %v", err)
	}
}
