package ui_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// patience bounds each wait: far more than a busy machine needs.
const patience = time.Minute

// tab is one page of a browser of its own. What the browser complains about, and whom it asks, is collected from the start.
type tab struct {
	t       *testing.T
	ctx     context.Context
	address string

	mu         sync.Mutex
	complaints []string
	requests   []string
}

// watch is run in the page before anything else: it notes what the content security policy stopped, and how late the page's own clock is.
const watch = `
window.stopped = [];
document.addEventListener("securitypolicyviolation", (e) => window.stopped.push(e.violatedDirective + " " + e.blockedURI));
window.lateness = [];
{ let last = performance.now(); setInterval(() => { const now = performance.now(); window.lateness.push({ at: Date.now(), ms: Math.max(0, now - last - 50) }); last = now; }, 50); }
`

// open starts a browser and shows the supervisor's page. The browser is closed, and what it complained about reported, at the end of the test.
func open(t *testing.T, sup *harness.Process) *tab {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(harness.TempDir(t)),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("lang", "en"),
		// Whatever name somebody asks for, nobody is found.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"))
	allocated, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, leave := chromedp.NewContext(allocated)
	t.Cleanup(leave)
	b := &tab{t: t, ctx: ctx, address: "http://" + sup.MetricsAddress() + "/"}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	b.do(
		command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}),
		command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}),
		look(desk, light), chromedp.Navigate(b.address))
	b.until("the page is filled", `latest !== null`)
	return b
}

// reload shows the page anew, with the focus where it is in the beginning.
func (b *tab) reload() {
	b.t.Helper()
	b.do(chromedp.Reload())
	b.until("the page is filled", `latest !== null`)
}

// command is a command of the browser's protocol whose answer does not matter.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

// note collects what the browser says. It is called by the goroutine that reads from the browser, and so only notes.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelVerbose && e.Entry.Level != log.EntryLevelInfo {
			b.complaints = append(b.complaints, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, fmt.Sprintf("%s (%s:%d)", e.ExceptionDetails.Text, e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber))
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprintf("the page wrote to the console: %s", e.Type))
	}
}

// blameless fails the test if the page raised an error, broke its policy, or asked somebody else than the supervisor.
func (b *tab) blameless() {
	b.t.Helper()
	stopped := b.list(`window.stopped`)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 || len(stopped) > 0 {
		b.t.Errorf("the browser complains: %q, and its policy stopped %q", b.complaints, stopped)
	}
	if len(b.requests) < 4 {
		b.t.Errorf("only these requests were seen: %q", b.requests)
	}
	for _, r := range b.requests {
		if !strings.HasPrefix(r, b.address) {
			b.t.Errorf("the page asked %q, which is not the supervisor", r)
		}
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// get runs an action that has a result.
func get[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// until waits until an expression of the page's JavaScript is true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(patience))); err != nil {
		b.t.Fatalf("never: %s: %v\n%s", what, err, b.text("body"))
	}
}

// text is what a person reads in an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return get(b, chromedp.Text(chromedp.CSS(selector)))
}

// list evaluates an expression that yields a list of texts.
func (b *tab) list(expression string) []string {
	b.t.Helper()
	return get(b, chromedp.Evaluate[[]string](expression))
}

// evaluate evaluates an expression for what it does.
func (b *tab) evaluate(expression string) {
	b.t.Helper()
	get(b, chromedp.Evaluate[chromedp.Void](expression))
}

// size is that of a window.
type size struct{ width, height int64 }

var (
	desk  = size{1280, 900}
	phone = size{360, 740}
)

// scheme is what the person prefers.
type scheme string

const (
	light scheme = "light"
	dark  scheme = "dark"
)

// look gives the page a size and a colour scheme, and stops what moves.
func look(s size, c scheme) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: string(c)}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		}),
		chromedp.EmulateViewport(s.width, s.height))
}

// shoot keeps a picture of the page from its top, twice as high as what a person sees without scrolling.
func (b *tab) shoot(name string, s size, c scheme) {
	b.t.Helper()
	const dir = "artefacts"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.evaluate(`scrollTo(0, 0)`)
	b.do(look(size{s.width, 2 * s.height}, c))
	png := get(b, chromedp.CaptureScreenshot())
	b.do(look(s, c))
	if !strings.HasPrefix(string(png), "\x89PNG") {
		b.t.Fatalf("the picture %s is none: %d bytes", name, len(png))
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// forgive drops the complaint that has the text, which must be there.
func (b *tab) forgive(text string) {
	b.t.Helper()
	harness.Eventually(b.t, "the browser complains about "+text, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		before := len(b.complaints)
		b.complaints = slices.DeleteFunc(b.complaints, func(c string) bool { return strings.Contains(c, text) })
		return len(b.complaints) < before
	})
}
