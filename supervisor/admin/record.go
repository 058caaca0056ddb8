package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// recordLine is one line of the reply to /v1/record.
type recordLine struct {
	// Event is the event as package recording encodes it.
	Event json.RawMessage `json:"event"`
	// Lost is how many events were lost before it because the client was slow.
	Lost uint64 `json:"lost,omitempty"`
}

// record answers with the state and then with each event, one a line, until the client ends. The values of variables need RoleAdmin.
func (s *server) record(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		only(http.MethodGet, nil).ServeHTTP(w, r)
		return
	}
	q := r.URL.Query()
	for name, values := range q {
		if name != "namespace" && name != "pod" && name != "values" || len(values) != 1 {
			answerError(w, badRequest("the command line and the service may be of different versions", "the query has %q, or has it twice", name))
			return
		}
	}
	values, err := strconv.ParseBool(q.Get("values"))
	if err != nil && q.Has("values") {
		answerError(w, badRequest("write true or false", "values is %q", q.Get("values")))
		return
	}
	if p := peerFrom(r.Context()); values && p.role < RoleAdmin {
		s.deny(w, r, p, fmt.Sprintf("uid %d has the role %s, and values need %s", p.uid, p.role, RoleAdmin), "record without values")
		return
	}
	select {
	case s.tails <- struct{}{}:
		defer func() { <-s.tails }()
	default:
		answerError(w, tooMany(cap(s.tails)))
		return
	}
	l := s.lines(w)
	f := supervisor.RecordFilter{Namespace: q.Get("namespace"), Pod: q.Get("pod"), Values: values}
	_ = s.api.Record(r.Context(), f, peerFrom(r.Context()).uid, func(ev *recording.Event, lost uint64) error { // it ends with the client
		data, err := ev.Encode()
		if err != nil {
			return err
		}
		return l.line(recordLine{Event: data, Lost: lost})
	})
}

// Record calls each for the state that the supervisor knows, as the event Synchronize, and then for each event of the runtime, until ctx ends, each returns an error, or the service ends. lost is
// how many events were lost before this one because each was slow. It returns the error; nil when the service ended in order.
func (c *Client) Record(ctx context.Context, f supervisor.RecordFilter, each func(ev *recording.Event, lost uint64) error) error {
	q := url.Values{"values": {strconv.FormatBool(f.Values)}}
	if f.Namespace != "" {
		q.Set("namespace", f.Namespace)
	}
	if f.Pod != "" {
		q.Set("pod", f.Pod)
	}
	if err := c.awake(ctx); err != nil {
		return err
	}
	patient := *c.slow
	patient.Timeout = 0 // the state of a large node is first, and then nothing may happen for hours
	return c.send(ctx, &patient, http.MethodGet, "/v1/record?"+q.Encode(), nil, func(resp *http.Response) error {
		dec := json.NewDecoder(resp.Body)
		for {
			var line recordLine
			if err := dec.Decode(&line); err != nil {
				return c.ended(ctx, err)
			}
			ev, err := recording.Decode(line.Event)
			if err != nil {
				return c.notOurs(err)
			}
			if err := each(ev, line.Lost); err != nil {
				return err
			}
		}
	})
}
