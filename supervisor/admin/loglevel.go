package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// LogLevels are the level of the log and how it is changed while the service runs. Safe for concurrent use; the methods must not block.
type LogLevels interface {
	// Level is the lowest level that is written: debug, info, warn or error.
	Level() string
	// SetLevel sets it until the service ends. uid is who asked. The error says which levels there are.
	SetLevel(level string, uid uint32) error
}

// LogLevelBody is the request and the reply of /v1/log-level.
type LogLevelBody struct {
	// Level is debug, info, warn or error.
	Level string `json:"level"`
}

// logLevelHint says how to write a LogLevelBody.
const logLevelHint = `write {"level":"debug"}: debug, info, warn or error`

// logLevel answers with the level, and sets it first for a POST.
func (s *server) logLevel(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.opts.Log == nil:
		answerError(w, httpError{http.StatusConflict, ErrorReply{Error: "the level of this log cannot be changed"}})
	case r.Method == http.MethodGet || r.Method == http.MethodPost:
		only(r.Method, s.changeLevel).ServeHTTP(w, r)
	default:
		only(http.MethodPost, s.changeLevel).ServeHTTP(w, r)
	}
}

func (s *server) changeLevel(r *http.Request) (any, error) {
	if r.Method == http.MethodPost {
		dec := json.NewDecoder(r.Body)
		dec.DisallowUnknownFields()
		var req LogLevelBody
		if err := dec.Decode(&req); err != nil {
			if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
				return nil, bodyError(err)
			}
			return nil, badRequest(logLevelHint, "read the body: %v", err)
		}
		if err := s.void(r); err != nil {
			return nil, err
		}
		if err := s.opts.Log.SetLevel(req.Level, peerFrom(r.Context()).uid); err != nil {
			return nil, badRequest(logLevelHint, "%v", err)
		}
	}
	return LogLevelBody{Level: s.opts.Log.Level()}, nil
}

// LogLevel returns the level of the service's log.
func (c *Client) LogLevel(ctx context.Context) (LogLevelBody, error) {
	var out LogLevelBody
	err := c.do(ctx, http.MethodGet, "/v1/log-level", nil, &out)
	return out, err
}

// SetLogLevel sets it until the service ends, and returns what it is then.
func (c *Client) SetLogLevel(ctx context.Context, level string) (LogLevelBody, error) {
	var out LogLevelBody
	err := c.do(ctx, http.MethodPost, "/v1/log-level", LogLevelBody{Level: level}, &out)
	return out, err
}
