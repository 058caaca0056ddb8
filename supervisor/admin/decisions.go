package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// ndjson is the content type of a reply of one JSON value a line.
const ndjson = "application/x-ndjson"

// DecisionsQuery returns the query of /v1/decisions for a filter. follow keeps the reply open and adds what comes.
func DecisionsQuery(f journal.Filter, follow bool) url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("kind", string(f.Kind))
	set("plugin", f.Plugin)
	set("team", f.Team)
	set("event", f.Event)
	set("namespace", f.Namespace)
	set("pod", f.Pod)
	set("container", f.Container)
	set("outcome", f.Outcome)
	set("action", string(f.Action))
	if f.Notable {
		q.Set("notable", "true")
	}
	if f.After > 0 {
		q.Set("after", strconv.FormatUint(f.After, 10))
	}
	if f.Last > 0 {
		q.Set("last", strconv.Itoa(f.Last))
	}
	if follow {
		q.Set("follow", "true")
	}
	return q
}

// filterOf reads a query.
func filterOf(q url.Values) (f journal.Filter, follow bool, err error) {
	f = journal.Filter{
		Kind: journal.Kind(q.Get("kind")), Plugin: q.Get("plugin"), Team: q.Get("team"), Event: q.Get("event"), Namespace: q.Get("namespace"), Pod: q.Get("pod"),
		Container: q.Get("container"), Outcome: q.Get("outcome"), Action: journal.Action(q.Get("action")),
	}
	known := DecisionsQuery(journal.Filter{
		Kind: "k", Plugin: "p", Team: "t", Event: "e", Namespace: "n", Pod: "p", Container: "c", Outcome: "o", Action: "a", Notable: true, After: 1, Last: 1,
	}, true)
	for name, values := range q {
		if _, ok := known[name]; !ok || len(values) != 1 {
			return f, false, badRequest("the command line and the service may be of different versions", "the query has %q, or has it twice", name)
		}
	}
	if f.Kind != "" && !slices.Contains(journal.Kinds(), f.Kind) {
		return f, false, badRequest("use one of: "+join(journal.Kinds()), "unknown kind %q", f.Kind)
	}
	if f.Action != "" && !slices.Contains(journal.Actions(), f.Action) {
		return f, false, badRequest("use one of: "+join(journal.Actions()), "unknown action %q", f.Action)
	}
	if f.Event != "" && !slices.Contains(supervisor.EventNames(), f.Event) {
		return f, false, badRequest("use one of: "+join(supervisor.EventNames()), "unknown event %q", f.Event)
	}
	if f.Outcome != "" && !slices.Contains(supervisor.OutcomeNames(), f.Outcome) {
		return f, false, badRequest("use one of: "+join(supervisor.OutcomeNames()), "unknown outcome %q", f.Outcome)
	}
	number := func(name string, bits int) uint64 {
		n, parseErr := strconv.ParseUint(q.Get(name), 10, bits)
		if parseErr != nil && q.Has(name) {
			err = badRequest("write a number", "%s is %q", name, q.Get(name))
		}
		return n
	}
	truth := func(name string) bool {
		b, parseErr := strconv.ParseBool(q.Get(name))
		if parseErr != nil && q.Has(name) {
			err = badRequest("write true or false", "%s is %q", name, q.Get(name))
		}
		return b
	}
	f.After, f.Last = number("after", 63), int(number("last", 31)) //nolint:gosec // 31 bits fit
	f.Notable, follow = truth("notable"), truth("follow")
	return f, follow, err
}

func join[S ~string](list []S) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}

// decisions answers with one decision a line, and keeps the connection open to follow.
func (s *server) decisions(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		only(http.MethodGet, nil).ServeHTTP(w, r)
		return
	}
	f, follow, err := filterOf(r.URL.Query())
	if err != nil {
		answerError(w, err)
		return
	}
	if err := s.unheardOf(f.Plugin, f.Team); err != nil {
		answerError(w, err)
		return
	}
	if !follow {
		l := s.lines(w)
		_ = l.write(s.api.Decisions(f))
		return
	}
	select {
	case s.tails <- struct{}{}:
		defer func() { <-s.tails }()
	default:
		answerError(w, tooMany(cap(s.tails)))
		return
	}
	sub := s.api.FollowDecisions(f)
	defer sub.Close()
	l := s.lines(w)
	if l.write(nil) != nil {
		return
	}
	for {
		ds, err := sub.Next(r.Context())
		if err != nil || l.write(ds) != nil {
			return
		}
	}
}

// unheardOf returns an error for a plugin or a team that is neither configured nor remembered from before: with a name that was mistyped nothing would ever be found. "" is none.
func (s *server) unheardOf(plugin, team string) error {
	st := s.api.Status()
	if team != "" && !slices.ContainsFunc(st.Plugins, func(p supervisor.PluginStatus) bool { return p.Team == team }) && len(s.api.Decisions(journal.Filter{Team: team, Last: 1})) == 0 {
		return unknownTeam(st, team)
	}
	if plugin == "" || slices.ContainsFunc(st.Plugins, func(p supervisor.PluginStatus) bool { return p.Name == plugin }) || len(s.api.Decisions(journal.Filter{Plugin: plugin, Last: 1})) > 0 {
		return nil
	}
	return unknownPlugin(st, plugin)
}

func tooMany(n int) error {
	return httpError{http.StatusServiceUnavailable, ErrorReply{Error: fmt.Sprintf("%d clients follow already", n), Hints: []string{"end one of them"}}}
}

// lines writes values, one a line, to a client. A client that does not read for the write limit is cut off.
type lines struct {
	ctl   *http.ResponseController
	enc   *json.Encoder
	limit time.Duration
}

func (s *server) lines(w http.ResponseWriter) lines {
	w.Header().Set("Content-Type", ndjson)
	w.Header().Set("Cache-Control", "no-store")
	l := lines{ctl: http.NewResponseController(w), enc: json.NewEncoder(w), limit: s.limits.write}
	l.enc.SetEscapeHTML(false)
	_ = l.ctl.SetReadDeadline(time.Time{}) // the limit for the request's head would end the wait for the client's end
	return l
}

func (l lines) write(ds []journal.Decision) error {
	if err := l.ctl.SetWriteDeadline(time.Now().Add(l.limit)); err != nil {
		return err
	}
	for i := range ds {
		if err := l.enc.Encode(&ds[i]); err != nil {
			return err
		}
	}
	return l.ctl.Flush()
}

// line writes one value.
func (l lines) line(v any) error {
	if err := l.ctl.SetWriteDeadline(time.Now().Add(l.limit)); err != nil {
		return err
	}
	if err := l.enc.Encode(v); err != nil {
		return err
	}
	return l.ctl.Flush()
}

// Decisions returns the latest decisions that the filter picks, oldest first.
func (c *Client) Decisions(ctx context.Context, f journal.Filter) ([]journal.Decision, error) {
	out := []journal.Decision{}
	err := c.stream(ctx, c.http, "/v1/decisions?"+DecisionsQuery(f, false).Encode(), func(d journal.Decision) error {
		out = append(out, d)
		return nil
	})
	return out, err
}

// FollowDecisions calls each for the decisions that the filter picks, from the filter's Last past ones on, until ctx ends, each returns an error, or the service ends. It returns the error; nil
// when the service ended in order.
func (c *Client) FollowDecisions(ctx context.Context, f journal.Filter, each func(journal.Decision) error) error {
	patient := *c.http
	patient.Timeout = 0 // nothing may happen for hours
	return c.stream(ctx, &patient, "/v1/decisions?"+DecisionsQuery(f, true).Encode(), each)
}

// stream reads one value a line.
func (c *Client) stream(ctx context.Context, client *http.Client, path string, each func(journal.Decision) error) error {
	return c.send(ctx, client, http.MethodGet, path, nil, func(resp *http.Response) error {
		dec := json.NewDecoder(resp.Body)
		for {
			var d *journal.Decision
			if err := dec.Decode(&d); err != nil {
				return c.ended(ctx, err)
			}
			if d == nil {
				return c.notOurs(errNull)
			}
			if err := each(*d); err != nil {
				return err
			}
		}
	})
}

// ended returns the error of a reply of one value a line after which err came: none when it ended in order, which is [io.EOF] after a whole line. A reply that was cut off is not all there is.
func (c *Client) ended(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return &RequestError{
			Message: fmt.Sprintf("ask %q: the answer was cut off, so it is not complete", c.socket), err: err,
			Hints: []string{"nri-supervisor was killed, or this command read too slowly: see its log, and try again"},
		}
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return c.notOurs(err)
	}
	return c.explain(ctx, err)
}

// unknownTeam says which teams have plugins.
func unknownTeam(st supervisor.Status, team string) error {
	teams := map[string]bool{}
	for _, p := range st.Plugins {
		if p.Team != "" {
			teams[p.Team] = true
		}
	}
	hint := "no plugin is loaded"
	if len(teams) > 0 {
		hint = "those with plugins are: " + strings.Join(slices.Sorted(maps.Keys(teams)), ", ")
	}
	return httpError{http.StatusNotFound, ErrorReply{Error: fmt.Sprintf("no plugin is of the team %q", team), Hints: []string{hint}}}
}
