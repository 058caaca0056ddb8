package ui_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// row selects a plugin's row.
func row(plugin string) string { return `document.querySelector('tr[data-plugin="` + plugin + `"]')` }

// noteOpen notes when the row shows the breaker open, by the clock of the machine.
const noteOpen = `new MutationObserver(() => {
	const r = document.querySelector('tr[data-plugin="gpu-env"]');
	if (r && r.dataset.breaker === "open") window.shownOpen ||= Date.now();
}).observe(document.body, { subtree: true, childList: true, attributes: true })`

// waited are the milliseconds from the opening of the breaker, by the supervisor's clock, to the row that shows it; slack is how late the page's own clock and the supervisor's
// answers were meanwhile, which on a quiet machine is nothing.
const waited = `(() => {
	const since = Date.parse(latest.plugins.find((p) => p.name === "gpu-env").breaker.since);
	const late = window.lateness.filter((l) => l.at >= since && l.at <= window.shownOpen + 100).reduce((sum, l) => sum + l.ms, 0);
	const begin = since - performance.timeOrigin, end = window.shownOpen - performance.timeOrigin;
	const answers = performance.getEntriesByType("resource").filter((r) => r.name.endsWith("status.json") && r.responseEnd >= begin && r.startTime <= end).reduce((sum, r) => sum + r.duration, 0);
	return { took: window.shownOpen - since, slack: late + answers };
})()`

// refused shows three refusals, until the page reads anew, and yields what the card and the row say of them.
const refused = `(() => {
	Object.assign(latest.plugins.find((p) => p.name === "gpu-env"), { refused: 3, refusedBy: [{ reason: "timeout", count: 3 }], refusedAt: latest.now });
	render();
	return [document.querySelector(".card").textContent, document.querySelector('tr[data-plugin="gpu-env"] [data-label="Refused"]').textContent];
})()`

func TestAHungPluginIsSeenWithinTwoSecondsWithItsTeamTheReasonAndThePodsAndSoIsThatItIsBack(t *testing.T) { //nolint:paralleltest // each has a browser of its own, and two of them keep each other waiting
	w := newWorld(t)
	b := open(t, w.sup)
	b.until("all in service", `byId("verdict").dataset.level === "fine"`)
	if got, want := b.text("#verdict"), "All 4 plugins are in service."; !strings.Contains(got, want) {
		t.Errorf("the page says %q, want %q", got, want)
	}
	b.shoot("healthy", desk, light)
	b.do(look(desk, light))
	b.evaluate(noteOpen)

	w.hangs()
	b.until("the breaker is shown open", `window.shownOpen`)
	d := get(b, chromedp.Evaluate[struct{ Took, Slack float64 }](waited))
	t.Logf("the page showed the open breaker %.0f ms after it opened, of which at most %.0f ms are the machine's", d.Took, d.Slack)
	if d.Took > 2000+d.Slack {
		t.Errorf("the page took %.0f ms, more than 2 s and the %.0f ms by which the machine was late", d.Took, d.Slack)
	}
	b.until("both containers without its work are shown", row("gpu-env")+`.dataset.state === "backoff" && latest.plugins.find((p) => p.name === "gpu-env").missed === 2`)
	if got, want := b.text("#verdict"), "1 of 4 plugins is broken: gpu-env."; !strings.Contains(got, want) {
		t.Errorf("the page says %q, want %q", got, want)
	}
	b.until("where its last output is to be read", `document.querySelector(".card").textContent.includes("not for everybody: nri-supervisor plugin show gpu-env")`)
	card := b.text(".card")
	for _, want := range []string{"gpu-env", "broken", "ml-infra", "#ml-infra-oncall", "a call hung", "CreateContainer of ml-training/bert-13 (main): timeout, no answer in 1s", "did not answer in time", "ml-training/bert-14", "nri-supervisor plugin show gpu-env"} {
		if !strings.Contains(card, want) {
			t.Errorf("the card does not say %q:\n%s", want, card)
		}
	}
	if n := len(b.list(`[...document.querySelectorAll(".card")].map((c) => c.textContent)`)); n != 1 {
		t.Errorf("%d cards are shown, want 1", n)
	}
	for _, want := range []string{"Waits for", "its process has to be started and synchronized", "First error", "hung, signal"} {
		if !strings.Contains(card, want) {
			t.Errorf("the card does not say %q:\n%s", want, card)
		}
	}
	for _, text := range b.list(refused) {
		if !strings.Contains(text, "3") || !strings.Contains(text, "timeout 3") && strings.Contains(text, "Refused") {
			t.Errorf("with three refusals the page says %q", text)
		}
	}
	for _, s := range []size{desk, phone} {
		b.do(look(s, light))
		b.until("the answers are in the first view", `document.querySelector(".card").getBoundingClientRect().top < window.innerHeight / 2`)
	}
	if got := b.list(`[...` + row("gpu-env") + `.querySelectorAll("rect.bar-bad")].map(() => "failed")`); len(got) == 0 {
		t.Error("the plot shows no failed call")
	}
	if decisions := b.text("#decisions"); !strings.Contains(decisions, "ml-training/bert-13") || !strings.Contains(decisions, "timeout") {
		t.Errorf("the decisions do not tell of the container:\n%s", decisions)
	}
	var shown struct{ Exits []struct{ Output []string } }
	w.sup.Ask(&shown, "plugin", "show", "gpu-env")
	if len(shown.Exits) != 1 || len(shown.Exits[0].Output) == 0 {
		t.Fatalf("the command line shows the exits %+v, want one with output", shown.Exits)
	}
	if _, page := w.sup.Get("/status.json"); strings.Contains(page, strings.TrimSpace(shown.Exits[0].Output[0])) {
		t.Errorf("whoever reaches the page reads what the plugin printed: %s", shown.Exits[0].Output[0])
	}
	b.shoot("broken", desk, light)
	b.shoot("broken-dark", desk, dark)
	b.shoot("broken-phone", phone, light)
	b.do(look(desk, light))

	w.mended()
	b.until("in service again", `byId("verdict").dataset.level === "fine" && `+row("gpu-env")+`.dataset.breaker === "closed" && byId("trouble-section").hidden`)
	b.shoot("recovered-dark", desk, dark)
	if restarts := b.list(`[` + row("gpu-env") + `.querySelector('[data-label="Restarts"]').textContent]`); restarts[0] != "1" {
		t.Errorf("the page shows %s restarts, want 1", restarts)
	}
	b.blameless()
}

func TestWhatAPluginWroteIsTextAndNoCodeRunsButThePagesOwn(t *testing.T) { //nolint:paralleltest // each has a browser of its own, and two of them keep each other waiting
	w := newWorld(t)
	b := open(t, w.sup)
	w.create("shop", "web", "broken")
	b.until("the error is shown", row("volume-tags")+`.textContent.includes("no volume")`)
	if got := b.text("#rows"); !strings.Contains(got, markup) {
		t.Errorf("the page does not show what the plugin wrote as it is:\n%s", got)
	}
	if found := b.list(`[...document.querySelectorAll("#injected, main script, [onmouseover]")].map((e) => e.outerHTML)`); len(found) > 0 {
		t.Errorf("the page took the plugin's text for markup: %q", found)
	}
	b.evaluate(`{ const s = document.createElement("script"); s.textContent = "window.ran = true"; document.body.append(s); s.remove(); }`)
	b.until("the policy stopped a script that is not the page's", `window.stopped.length === 1 && window.stopped[0].startsWith("script-src") && window.ran === undefined`)
	// That was the test's doing.
	b.evaluate(`window.stopped = []`)
	b.forgive("Content Security Policy")
	b.blameless()
}
