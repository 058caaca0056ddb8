package statuspage

import (
	"bytes"
	"embed"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

//go:embed page.html page.css page.js
var files embed.FS

// Source is whom the page is about; *supervisor.Supervisor is one. It must be safe for concurrent use and must not block.
type Source interface {
	Overview() supervisor.Overview
}

// fresh is how long an answer is used again.
const fresh = 250 * time.Millisecond

// policy allows the page's own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// View is what the page reads.
type View struct {
	supervisor.Overview
	// Node is the name of the node.
	Node string `json:"node"`
	// Verdict is the one sentence about all of it, and Level what it comes to.
	Verdict string `json:"verdict"`
	Level   Level  `json:"level"`
	// Judged are the plugins, the ones in trouble first.
	Judged []Judgement `json:"judged"`
	// Reasons says in words what each reason means for which a container runs without a plugin's work.
	Reasons map[string]string `json:"reasons"`
}

type page struct {
	source Source
	node   string

	mu   sync.Mutex
	made time.Time
	body []byte
}

// Handler serves the page at /, its files beside it, and the JSON at /status.json. node is shown as the node's name.
func Handler(s Source, node string) http.Handler {
	p := &page{source: s, node: node}
	mux := http.NewServeMux()
	for path, f := range map[string]struct{ name, kind string }{
		"GET /{$}":      {"page.html", "text/html; charset=utf-8"},
		"GET /page.css": {"page.css", "text/css; charset=utf-8"},
		"GET /page.js":  {"page.js", "text/javascript; charset=utf-8"},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			data, err := files.ReadFile(f.name)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer(w, f.kind, data)
		})
	}
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) {
		data, err := p.status()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, "application/json", data)
	})
	return mux
}

func answer(w http.ResponseWriter, kind string, data []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(data) // a browser that is gone needs no reply
}

// status returns the JSON, made anew when the last one is old.
func (p *page) status() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.body != nil && time.Since(p.made) < fresh {
		return p.body, nil
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(NewView(p.source.Overview(), p.node)); err != nil {
		return nil, err
	}
	body, err := cleanJSON(b.Bytes())
	if err != nil {
		return nil, err
	}
	p.body, p.made = body, time.Now()
	return p.body, nil
}

// NewView judges an overview.
func NewView(o supervisor.Overview, node string) View {
	o.Plugins = shortened(o.Plugins)
	v := View{Overview: o, Node: node, Reasons: reasonTexts()}
	v.Judged = judge(o)
	v.Level, v.Verdict = verdict(o, v.Judged)
	return v
}

// shortened are the plugins with what they said of their failures bounded; those that are given are left as they are.
func shortened(plugins []supervisor.PluginStatus) []supervisor.PluginStatus {
	out := slices.Clone(plugins)
	for i := range out {
		p := &out[i]
		p.LastError = bounded(p.LastError, longest)
		if p.Breaker.Opening != nil {
			o := *p.Breaker.Opening
			o.First, o.Last = short(o.First), short(o.Last)
			p.Breaker.Opening = &o
		}
	}
	return out
}

// short is a copy of a failure with its detail bounded; nil for nil.
func short(x *supervisor.Failure) *supervisor.Failure {
	if x == nil {
		return nil
	}
	y := *x
	y.Detail = bounded(y.Detail, longest)
	return &y
}
