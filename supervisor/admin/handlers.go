package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// endpoint answers a request that is allowed and has the right method.
type endpoint func(*http.Request) (reply any, err error)

// httpError is an error with its status code.
type httpError struct {
	code  int
	reply ErrorReply
}

// Error returns the message without the hints.
func (e httpError) Error() string { return e.reply.Error }

func badRequest(hint, format string, args ...any) error {
	return httpError{http.StatusBadRequest, ErrorReply{Error: fmt.Sprintf(format, args...), Hints: []string{hint}}}
}

// handler lets in who may ask, and finds the endpoint.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/status", only(http.MethodGet, s.status))
	mux.Handle("/v1/missed", only(http.MethodGet, s.missed))
	mux.Handle("/v1/decisions", http.HandlerFunc(s.decisions))
	mux.Handle("/v1/explain", only(http.MethodGet, s.explain))
	mux.HandleFunc("/v1/record", s.record)
	mux.Handle("/v1/plugins/{name}/{action}", only(http.MethodPost, s.act))
	mux.HandleFunc("/v1/reload", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(reloadLimit)) // it fails for no connection of a server
		only(http.MethodPost, s.reload).ServeHTTP(w, r)
	})
	mux.HandleFunc("/v1/log-level", s.logLevel)
	mux.Handle("/v1/bypass", only(http.MethodPost, s.bypass))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answerError(w, httpError{http.StatusNotFound, ErrorReply{
			Error: fmt.Sprintf("no such path: %q", r.URL.Path), Hints: []string{"the command line and the service may be of different versions"},
		}})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := peerFrom(r.Context())
		_, pattern := mux.Handler(r)
		switch needs := roleFor(pattern); {
		case p.role == RoleNone:
			s.deny(w, r, p, fmt.Sprintf("uid %d may not use the admin socket", p.uid), "run this as root")
		case p.role < needs:
			s.deny(w, r, p, fmt.Sprintf("uid %d has the role %s, and this needs %s", p.uid, p.role, needs),
				"run this as root, or have the platform team add you to spec.admin.roles."+needs.String())
		default:
			r.Body = http.MaxBytesReader(w, r.Body, s.limits.body)
			mux.ServeHTTP(w, r)
		}
	})
}

// roleFor returns the role that a path needs. What is not named here needs RoleAdmin, so that a path that is forgotten is closed and not open.
func roleFor(pattern string) Role {
	switch pattern {
	case "/", "/v1/status", "/v1/missed", "/v1/decisions", "/v1/explain":
		return RoleView
	case "/v1/plugins/{name}/{action}", "/v1/record", "/v1/log-level":
		return RoleOperate
	default: // the bypass, for one: it is about every team's plugins
		return RoleAdmin
	}
}

func (s *server) deny(w http.ResponseWriter, r *http.Request, p peer, why, hint string) {
	s.opts.Denied(Denial{UID: p.uid, PID: int(p.pid), Method: r.Method, Path: r.URL.Path})
	answerError(w, httpError{http.StatusForbidden, ErrorReply{Error: why, Hints: []string{hint}}})
}

// only answers requests with the method.
func only(method string, e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			answerError(w, httpError{http.StatusMethodNotAllowed, ErrorReply{
				Error: fmt.Sprintf("%q does not take %s", r.URL.Path, r.Method), Hints: []string{"use " + method},
			}})
			return
		}
		reply, err := e(r)
		if err != nil {
			answerError(w, err)
			return
		}
		answer(w, http.StatusOK, reply)
	})
}

func answerError(w http.ResponseWriter, err error) {
	he, ok := errors.AsType[httpError](err)
	if !ok {
		he = httpError{http.StatusInternalServerError, ErrorReply{Error: err.Error()}}
	}
	answer(w, he.code, he.reply)
}

// answer encodes first and writes then, so that no lock of anybody is held by a client that reads slowly.
func answer(w http.ResponseWriter, code int, reply any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(reply); err != nil {
		code = http.StatusInternalServerError
		body.Reset()
		fmt.Fprintf(&body, "{\"error\":%q}\n", "encode the reply: "+err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(body.Bytes()) // a client that is gone needs no reply
}

func (s *server) status(*http.Request) (any, error) {
	st := s.api.Status()
	if st.Plugins == nil {
		st.Plugins = []supervisor.PluginStatus{} // not null for an empty list
	}
	return st, nil
}

func (s *server) missed(*http.Request) (any, error) {
	list := append([]supervisor.MissedWork{}, s.api.Missed()...) // not null for an empty list
	return list, nil
}

func (s *server) act(r *http.Request) (any, error) {
	name, action := r.PathValue("name"), r.PathValue("action")
	if !slices.Contains(Actions(), action) {
		return nil, badRequest("use one of: "+strings.Join(Actions(), ", "), "unknown action %q", action)
	}
	if err := s.void(r); err != nil {
		return nil, err
	}
	err := s.api.Act(name, action, peerFrom(r.Context()).uid)
	switch {
	case err == nil:
		return ActionReply{Plugin: name, Action: action}, nil
	case errors.Is(err, supervisor.ErrUnknownPlugin):
		return nil, unknownPlugin(s.api.Status(), name)
	default: // the plugin is there, the action is known: its state rules it out
		return nil, httpError{http.StatusConflict, ErrorReply{Error: err.Error()}}
	}
}

// unknownPlugin says what the supervisor knows of a name that it does not host.
func unknownPlugin(st supervisor.Status, name string) error {
	var known []string
	for _, p := range st.Plugins {
		switch {
		case len(p.Problems) == 0:
			known = append(known, p.Name)
		case p.Name == name:
			return httpError{http.StatusConflict, ErrorReply{
				Error: fmt.Sprintf("plugin %q does not run: its manifest is invalid", name),
				Hints: append(slices.Clone(p.Problems), "mend the manifest: nri-supervisor check", "then: nri-supervisor reload"),
			}}
		}
	}
	hint := "no plugin is loaded"
	if len(known) > 0 {
		hint = "known are: " + strings.Join(known, ", ")
	}
	return httpError{http.StatusNotFound, ErrorReply{Error: fmt.Sprintf("no such plugin: %q", name), Hints: []string{hint}}}
}

// reloadLimit bounds the reply to a reload: the supervisor waits a minute for plugins that change.
const reloadLimit = 75 * time.Second

func (s *server) reload(r *http.Request) (any, error) {
	if err := s.void(r); err != nil {
		return nil, err
	}
	report, err := s.api.ReloadBy(r.Context(), peerFrom(r.Context()).uid)
	if err != nil {
		return nil, httpError{http.StatusConflict, ErrorReply{Error: err.Error()}}
	}
	return report, nil
}

// forHint says how to write a BypassRequest.
const forHint = `write {"for":"10m"}, at most 24h; {"for":"0s"} ends the bypass`

func (s *server) bypass(r *http.Request) (any, error) {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	var req BypassRequest
	if err := dec.Decode(&req); err != nil {
		return nil, bodyError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, badRequest(forHint, "more than one JSON value in the body")
	}
	d, err := time.ParseDuration(req.For)
	switch {
	case req.For == "":
		return nil, badRequest(forHint, `"for" is missing`)
	case err != nil:
		return nil, badRequest(forHint, "\"for\" is %q, which is no duration", req.For)
	case d < 0:
		return nil, badRequest(forHint, "\"for\" is %s, which is below zero", d)
	case d > MaxBypass:
		return nil, badRequest(forHint, "\"for\" is %s, more than %s", d, MaxBypass)
	}
	if err := s.void(r); err != nil {
		return nil, err
	}
	s.api.Bypass(d, peerFrom(r.Context()).uid)
	return BypassReply{Until: s.api.Status().Bypass}, nil
}

func bodyError(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return httpError{http.StatusRequestEntityTooLarge, ErrorReply{
			Error: fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit), Hints: []string{forHint},
		}}
	}
	return badRequest(forHint, "read the body: %v", err)
}
