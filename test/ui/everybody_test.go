package ui_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// contrast is a function of JavaScript that lists the texts, plots and borders that cannot be told from what is behind them.
//
//go:embed contrast.js
var contrast string

// TestThePageWorksByKeyboardForAScreenReaderInBothSchemesAndOnAPhone: with a plugin that is broken, one that is switched off, and one in service whose error is long.
func TestThePageWorksByKeyboardForAScreenReaderInBothSchemesAndOnAPhone(t *testing.T) { //nolint:paralleltest // each has a browser of its own, and two of them keep each other waiting
	w := newWorld(t)
	w.operate("plugin", "disable", "image-audit")
	w.hangs()
	w.create("shop", strings.Repeat("a-very-long-name-", 12)+"web", "broken")
	b := open(t, w.sup)
	b.until("all of it is shown", `document.querySelectorAll(".card").length === 3 && `+row("volume-tags")+`.textContent.includes("no volume") && latest.missedTotal >= 4`)

	// One after the other: they share the tab.
	t.Run("every text has enough contrast", func(t *testing.T) { b.in(t).contrasts() })
	t.Run("every stop of the keyboard is reached and seen", func(t *testing.T) { b.in(t).keyboard() })
	t.Run("everything has a name for a screen reader", func(t *testing.T) { b.in(t).tree() })
	t.Run("nothing is wider than a phone", func(t *testing.T) { b.in(t).narrow() })
	b.blameless()
}

// in is the same tab for a subtest.
func (b *tab) in(t *testing.T) *tab {
	t.Helper()
	return &tab{t: t, ctx: b.ctx, address: b.address}
}

// contrasts checks the ratios of WCAG 2.2, level AA: 4.5 for text, 3 for large text and for what is no text; for each level that the page can have.
func (b *tab) contrasts() {
	for _, c := range []scheme{light, dark} {
		for _, s := range []size{desk, phone} {
			b.do(look(s, c))
			checked := get(b, chromedp.Evaluate[struct {
				Checked int
				Bad     []string
			}]("("+contrast+")()"))
			if checked.Checked < 100 {
				b.t.Errorf("%s, %d wide: only %d texts were checked", c, s.width, checked.Checked)
			}
			for _, bad := range checked.Bad {
				b.t.Errorf("%s, %d wide: %s", c, s.width, bad)
			}
		}
	}
	b.shoot("trouble", desk, light)
	b.shoot("trouble-dark", desk, dark)
}

// stops are the things that a person can act on, in the order of the page.
const stops = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((e) => e.checkVisibility()).map((e) => e.outerHTML)`

// here is what has the focus, and whether a person sees that.
const here = `(() => {
	const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
	const seen = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.width > 0 && r.left >= 0 && r.top >= 0 && r.bottom <= innerHeight && r.right <= innerWidth;
	return [e.outerHTML, String(seen), String(r.height)];
})()`

func (b *tab) keyboard() {
	b.do(look(desk, light))
	b.reload()
	want := b.list(stops)
	if len(want) < 3 {
		b.t.Fatalf("only %d stops: %q", len(want), want)
	}
	for i, stop := range want {
		b.do(chromedp.KeyEvent(kb.Tab))
		got := b.list(here)
		if got[0] != stop {
			b.t.Fatalf("stop %d of the keyboard is %s, want %s", i+1, got[0], stop)
		}
		if got[1] != "true" {
			b.t.Errorf("stop %d of the keyboard, %s, has no outline that can be seen", i+1, stop)
		}
	}
	b.reload()
	b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.until("the first stop skips to the plugins", `location.hash === "#plugins" && document.activeElement.id === "plugins"`)
	b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("ML-inf"))
	b.until("the filter shows one team", `[...document.querySelectorAll("#rows tr")].map((r) => r.dataset.plugin).join() === "gpu-env"`)
	// What somebody types stays while the page reads anew.
	b.evaluate(`window.before = answered`)
	b.until("the page has read anew", `answered > window.before`)
	b.until("the filter still holds", `document.activeElement.id === "filter" && byId("filter").value === "ML-inf" && document.querySelectorAll("#rows tr").length === 1`)
	b.do(chromedp.KeyEvent("x"))
	b.until("no plugin matches", `!byId("none").hidden`)
	b.evaluate(`byId("filter").value = ""; byId("filter").dispatchEvent(new Event("input"))`)
	b.until("all are shown again", `document.querySelectorAll("#rows tr").length === 4`)
}

// node is one of the accessibility tree.
type node struct{ role, name string }

func (b *tab) nodes() (out []node) {
	b.t.Helper()
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		var s string
		if json.Unmarshal(v.Value, &s) != nil {
			return ""
		}
		return s
	}
	tree := get(b, func(ctx context.Context, target *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	for _, n := range tree.Nodes {
		if !n.Ignored {
			out = append(out, node{text(n.Role), text(n.Name)})
		}
	}
	return out
}

// tree checks what a screen reader is told, on both sizes: a narrow page lays its tables out as blocks, and they must stay tables.
func (b *tab) tree() {
	for _, s := range []size{desk, phone} {
		b.do(look(s, light))
		count := map[string]int{}
		headings := []string{}
		for _, n := range b.nodes() {
			count[n.role]++
			switch n.role {
			case "heading":
				headings = append(headings, n.name)
			case "region", "table", "image", "img", "link", "searchbox", "textbox", "button", "columnheader", "rowheader", "RootWebArea":
				if n.name == "" {
					b.t.Errorf("%d wide: something with the role %s has no name", s.width, n.role)
				}
			}
			if n.role == "image" && !strings.Contains(n.name, "in five minutes") {
				b.t.Errorf("%d wide: a plot is called %q", s.width, n.name)
			}
		}
		for role, want := range map[string]int{"main": 1, "banner": 1, "contentinfo": 1, "status": 1, "searchbox": 1, "table": 3, "rowheader": 4, "image": 3} {
			if count[role] < want {
				b.t.Errorf("%d wide: a screen reader finds %d of the role %s, want %d; it finds %v", s.width, count[role], role, want, count)
			}
		}
		all := strings.Join(headings, "|")
		for _, want := range []string{"is broken: gpu-env.", "Needs attention", "gpu-env ✖ broken", "image-audit", "Plugins", "Containers without a plugin’s work", "Recent decisions"} {
			if !strings.Contains(all, want) {
				b.t.Errorf("%d wide: no heading says %q: %q", s.width, want, headings)
			}
		}
	}
}

// wide lists what reaches over the right edge.
const wide = `[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest(".skip, .unseen") && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 200))`

// narrow checks the width of a small phone, and that of a page that is magnified four times.
func (b *tab) narrow() {
	for _, s := range []size{phone, {320, 640}} {
		b.do(look(s, light))
		if scrolls := get(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); scrolls > int(s.width) {
			b.t.Errorf("%d wide: the page is %d wide", s.width, scrolls)
		}
		for _, e := range b.list(wide) {
			b.t.Errorf("%d wide: this reaches over the edge: %s", s.width, e)
		}
		b.shoot(fmt.Sprintf("trouble-%d", s.width), s, dark)
	}
}
