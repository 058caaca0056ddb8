"use strict";
// Reads /status.json once a second and shows it. Whatever comes from plugins, manifests and pods becomes text, never markup.

const byId = (id) => document.getElementById(id);
const marks = { broken: "✖", look: "▲", off: "■", waiting: "…", fine: "✔" };
const words = { broken: "broken", look: "needs a look", off: "switched off", waiting: "coming up", fine: "in service" };

// make builds an element: its attributes, then its children, which are elements or text.
function make(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children.filter((c) => c !== null && c !== undefined && c !== "").map((c) => (c instanceof Node ? c : String(c))));
  return e;
}

function drawn(name, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  return e;
}

// show replaces the children of an element, but only when they changed: who reads or has selected something is not disturbed.
function show(id, children) {
  const parent = byId(id), next = make("div", {}, ...children);
  if (parent.innerHTML !== next.innerHTML) parent.replaceChildren(...next.childNodes);
}

function age(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return s + "\u00a0s";
  if (s < 3600) return Math.floor(s / 60) + "\u00a0min";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

function took(seconds) {
  if (seconds < 0.001) return Math.max(1, Math.round(seconds * 1e6)) + " µs";
  if (seconds < 1) return (seconds < 0.01 ? (seconds * 1000).toFixed(1).replace(/\.0$/, "") : Math.round(seconds * 1000)) + " ms";
  return seconds.toFixed(1) + " s";
}

// stamp is an instant as the log and the command line have it, in UTC; since is that and how long ago it was.
const stamp = (t) => new Date(t).toISOString().slice(0, 19) + "Z";
const since = (t, now) => stamp(t) + " (" + age(now - Date.parse(t)) + ")";
const many = (n, one, more) => n + " " + (n === 1 ? one : more || one + "s");

// plot draws the longest call of each slot as a bar; one with failed calls is hatched by its shape: it reaches up to the top line.
function plot(points, now) {
  if (!points || points.length === 0) return make("span", { class: "plot-text" }, "no calls");
  const slots = 60, width = 180, height = 40, slot = 5000;
  const top = Math.max(...points.map((p) => p.maxSeconds), 1e-6);
  const calls = points.reduce((n, p) => n + p.calls, 0), bad = points.reduce((n, p) => n + (p.bad || 0), 0);
  const label = many(calls, "call") + " in five minutes, longest " + took(top) + (bad ? ", " + bad + " failed" : "");
  const svg = drawn("svg", { class: "plot", viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": label, preserveAspectRatio: "none" });
  svg.append(drawn("line", { x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }));
  const last = Math.floor(now / slot);
  for (const p of points) {
    const place = slots - 1 - (last - Math.floor(Date.parse(p.at) / slot));
    if (place < 0 || place >= slots) continue;
    const h = Math.max(2, (p.maxSeconds / top) * (height - 2));
    svg.append(drawn("rect", { x: place * 3, width: 2.4, y: p.bad ? 0 : height - h, height: p.bad ? height : h, class: p.bad ? "bar-bad" : "bar-ok" }));
  }
  return make("span", {}, svg, make("span", { class: "plot-text" }, "longest " + took(top) + (bad ? ", " + bad + " of " + calls + " failed" : "")));
}

const cell = (label, cls, ...children) => make("td", { "data-label": label, class: cls }, make("span", {}, ...children));
const chip = (level, text) => make("span", { class: "chip", "data-level": level }, text);

// because is a reason as metrics and the command line name it, and in words.
const because = (reason) => reason + (latest.reasons[reason] ? " – " + latest.reasons[reason] : "");

// brief is a long text without its middle, as the answer has the errors of plugins.
function brief(text) {
  const runes = [...text];
  return runes.length > 200 ? runes.slice(0, 100).join("") + " … " + runes.slice(-100).join("") : text;
}

// failure is the latest decision in which the plugin's work was lost, and the plugin said or did something about it.
function failure(p, decisions) {
  const d = decisions.findLast((d) => d.plugin === p.name && d.reason && d.detail);
  return d && d.event + (d.pod ? " of " + d.namespace + "/" + d.pod + (d.container ? " (" + d.container + ")" : "") : "") + ": " + d.reason + ", " + brief(d.detail);
}

// told is one failure that counted against a plugin's breaker.
const told = (x, now) => since(x.at, now) + ": " + (x.event ? x.event + " of " + x.namespace + "/" + x.pod + (x.container ? " (" + x.container + ")" : "") + ": " : "") + [x.reason, x.detail].filter(Boolean).join(", ");

const reasons = (list) => (list || []).map((r) => r.reason + " " + r.count).join(", ");

function affected(p, missed, total) {
  const mine = missed.filter((m) => m.plugin === p.name);
  if (p.state === "invalid") return "not known: it is not hosted";
  if (!p.missed) return "no living container runs without its work";
  const shown = mine.slice(0, 5).map((m) => make("li", {}, m.namespace + "/" + m.pod + " (" + m.container + "): " + because(m.reason)));
  if (p.missed > shown.length) shown.push(make("li", {}, "and " + (p.missed - shown.length) + " more: ", make("code", {}, "nri-supervisor missed --plugin " + p.name)));
  return make("span", {}, many(p.missed, "container runs", "containers run") + " without its work:", make("ul", {}, ...shown));
}

function card(p, j, v, now) {
  const list = [];
  const row = (term, ...what) => list.push(make("dt", {}, term), make("dd", {}, ...what));
  row("Team", p.team || "unknown", p.contact ? " – ask " + p.contact : "");
  row("Why", make("strong", {}, j.why));
  row("Since", since(new Date(j.since).toISOString(), now));
  if (j.level !== "off" || p.missed) row("Affected", affected(p, v.missedContainers, v.missedTotal));
  if (p.refused) row("Refused", many(p.refused, "request") + " of the runtime since the start, the last " + since(p.refusedAt, now) + ": " + reasons(p.refusedBy));
  if (j.try) row("Next", make("code", {}, j.try));
  if (p.nextStart && Date.parse(p.nextStart) > now) row("Next start", "in " + age(Date.parse(p.nextStart) - now));
  const o = p.breaker.opening, opened = o && !o.closed ? o : null;
  if (opened && (opened.again || p.breaker.state === "half_open" || Date.parse(opened.at) !== j.since)) row("Opened", since(opened.at, now) + " by " + opened.cause + ": " + j.opened + (opened.again ? "; " + many(opened.again, "trial") + " failed since" : ""));
  if (j.waits) row("Waits for", j.waits);
  const failed = j.level === "broken" && !opened && failure(p, v.decisions);
  if (opened && opened.first) row("First error", told(opened.first, now));
  if (opened && opened.last) row("Last error", told(opened.last, now));
  if (failed) row("Last failure", failed);
  if (p.lastError && !(failed && failed.endsWith(p.lastError)) && !(opened && opened.last)) row("Last error", p.lastError);
  const exit = (p.exits || []).at(-1);
  if (exit && j.level === "broken" && !(opened && opened.last && opened.last.reason === exit.reason)) row("Last exit", since(exit.at, now) + ": " + exit.reason + ", " + brief(exit.detail || "") + (exit.inFlight ? ", during " + exit.inFlight : ""));
  if (exit && exit.withheldOutput && j.level === "broken") row("Last output", many(exit.withheldOutput, "line") + ", not for everybody: ", make("code", {}, "nri-supervisor plugin show " + p.name));
  return make("article", { class: "card", "data-edge": j.level }, make("h3", {}, p.name + " ", chip(j.level, marks[j.level] + " " + words[j.level])), make("dl", {}, ...list));
}

function row(p, j, v, now) {
  const known = (n) => (p.state === "invalid" ? "-" : n); // of one that is not hosted nothing is counted
  const breaker = p.breaker.state ? p.breaker.state + (p.breaker.cause && p.breaker.state !== "closed" ? " (" + p.breaker.cause + ")" : "") : "";
  return make("tr", { "data-plugin": p.name, "data-breaker": p.breaker.state || "", "data-state": p.state },
    make("th", { scope: "row", "data-label": "Plugin" }, make("span", {}, p.name)),
    cell("Team", "", p.team), cell("State", "", chip(j.level, marks[j.level] + " " + words[j.level]), make("span", { class: "plot-text" }, " " + p.state)), cell("Breaker", "", breaker),
    cell("Latency", "", plot(v.latency[p.name], now)), cell("Selected", "num", known(v.selected[p.name] || 0)),
    cell("Missed", p.missed ? "num strong" : "num", known(p.missed)), cell("Refused", p.refused ? "num strong" : "num", known(p.refused)), cell("Restarts", "num", known(p.restarts)), cell("Last error", "error", p.lastError || "none"));
}

// shownDecisions is how many are shown, of those that the page is told; on a phone each is a block of its own.
const shownDecisions = 20;

const actions = {
  allowed: "changed it", ignored: "went on without it", failed: "failed the request", refused: "refused it", overruled: "refused it, overruled",
  opted_out: "opted out", discarded: "came to nothing", denied: "update denied", lost: "update lost", done: "done by an operator",
};

function decision(d) {
  const pod = d.pod ? d.namespace + "/" + d.pod + (d.container ? " (" + d.container + ")" : "") : "";
  const what = d.kind === "manual" ? d.manual : [actions[d.action] || d.action, d.reason].filter(Boolean).join(": ");
  const fields = (list) => (list || []).map((f) => f.field + (f.key ? "[" + f.key + "]" : "")).join(", ");
  const detail = [d.detail, fields(d.changed), d.dropped ? "dropped " + fields(d.dropped) : ""].filter(Boolean).join("; ");
  return make("tr", {}, cell("Time", "when", stamp(d.time)), cell("Pod", "", pod), cell("Plugin", "", d.plugin ? d.plugin + (d.team ? " (" + d.team + ")" : "") : ""),
    cell("Event", "", d.event || d.kind), cell("What", d.reason ? "strong" : "", what || d.kind), cell("Detail", "detail", detail));
}

function facts(v, now) {
  const r = v.runtime;
  const runtime = r.connected ? "Connected to " + r.name + " " + r.version + " for " + age(now - Date.parse(r.since)) : (r.error || "") + (r.hint ? " – " + r.hint : "");
  return [runtime, many(v.pods, "pod") + ", " + many(v.containers, "container"), v.refused ? many(v.refused, "request") + " refused for a plugin’s sake" : "", "version " + v.version, "up for " + age(now - Date.parse(v.started)), "configuration " + v.config.hash.slice(0, 12)].filter(Boolean).join(" · ");
}

let latest = null;

function render() {
  const v = latest, now = Date.parse(v.now);
  document.title = (v.level === "broken" ? "✖ " : "") + v.verdict + " – " + v.node;
  byId("node").textContent = "on " + v.node;
  const h = byId("verdict");
  if (h.textContent !== marks[v.level] + " " + v.verdict) h.textContent = marks[v.level] + " " + v.verdict;
  h.dataset.level = v.level;
  byId("facts").textContent = facts(v, now);
  const problems = v.config.problems || [];
  byId("problems-section").hidden = problems.length === 0;
  show("problems", problems.map((p) => make("li", /(^|: )warning: /.test(p) ? {} : { class: "severe" }, p)));
  const plugins = new Map((v.plugins || []).map((p) => [p.name, p]));
  const trouble = v.judged.filter((j) => j.level === "broken" || j.level === "look" || j.level === "off");
  byId("trouble-section").hidden = trouble.length === 0;
  show("trouble", trouble.map((j) => card(plugins.get(j.plugin), j, v, now)));
  const wanted = byId("filter").value.trim().toLowerCase();
  const rows = v.judged.filter((j) => (j.plugin + " " + plugins.get(j.plugin).team).toLowerCase().includes(wanted));
  show("rows", rows.map((j) => row(plugins.get(j.plugin), j, v, now)));
  byId("none").hidden = rows.length > 0;
  byId("missed-count").textContent = v.missedTotal ? "(" + v.missedTotal + (v.missedTotal > v.missedContainers.length ? ", the latest " + v.missedContainers.length : "") + ")" : "";
  byId("missed-none").hidden = v.missedTotal > 0;
  byId("missed-table").hidden = v.missedTotal === 0;
  show("missed", v.missedContainers.map((m) => make("tr", {}, cell("Pod", "", m.namespace + "/" + m.pod), cell("Container", "", m.container),
    cell("Plugin", "", m.plugin), cell("Team", "", m.team), cell("Reason", "", make("strong", {}, m.reason), latest.reasons[m.reason] ? " – " + latest.reasons[m.reason] : ""), cell("Since", "when", since(m.at, now)))));
  byId("decisions-none").hidden = v.decisions.length > 0;
  byId("decisions-table").hidden = v.decisions.length === 0;
  show("decisions", v.decisions.slice(-shownDecisions).reverse().map(decision));
}

let answered = Date.now();

async function poll() {
  const limit = new AbortController(), timer = setTimeout(() => limit.abort(), 5000);
  try {
    const r = await fetch("status.json", { cache: "no-store", signal: limit.signal });
    if (!r.ok) throw new Error("status " + r.status);
    latest = await r.json();
    latest.missedContainers ||= [];
    latest.decisions ||= [];
    answered = Date.now();
    byId("stale").hidden = true;
    render();
  } catch {
    byId("stale").hidden = false;
    byId("stale").textContent = "nri-supervisor does not answer since " + stamp(answered) + ". What is shown may be old.";
  } finally {
    clearTimeout(timer);
    setTimeout(poll, document.hidden ? 5000 : 1000);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  byId("filter").addEventListener("input", () => latest && render());
  poll();
});
