package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// explain answers what each plugin had to do with a pod.
func (s *server) explain(r *http.Request) (any, error) {
	q := r.URL.Query()
	for name, values := range q {
		if name != "namespace" && name != "pod" && name != "container" || len(values) != 1 {
			return nil, badRequest("the command line and the service may be of different versions", "the query has %q, or has it twice", name)
		}
	}
	if q.Get("pod") == "" {
		return nil, badRequest("write ?namespace=N&pod=P, and &container=C for one container", "the pod is missing")
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.write*8/10) // so that there is time left for the reply
	defer cancel()
	list, err := s.api.Explain(ctx, q.Get("namespace"), q.Get("pod"), q.Get("container"))
	if errors.Is(err, supervisor.ErrNotExplained) {
		return nil, httpError{http.StatusNotFound, ErrorReply{Error: err.Error(), Hints: []string{
			"it may live on another node, or have been too uninteresting for the audit: no plugin changed it or failed on it",
		}}}
	}
	return list, err
}

// Explain says what each plugin had to do with a pod and its containers, or with one container by name or id.
func (c *Client) Explain(ctx context.Context, namespace, pod, container string) ([]supervisor.Explanation, error) {
	q := url.Values{"namespace": {namespace}, "pod": {pod}}
	if container != "" {
		q.Set("container", container)
	}
	out := []supervisor.Explanation{}
	if err := c.awake(ctx); err != nil {
		return nil, err
	}
	patient := *c
	patient.http = c.slow // what is gone is looked for in the audit
	err := patient.do(ctx, http.MethodGet, "/v1/explain?"+q.Encode(), nil, &out)
	return out, err
}
