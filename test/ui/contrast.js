// Returns how many pairs of colours were looked at, and those whose contrast is less than WCAG 2.2 wants on level AA.
() => {
  const rgba = (text) => {
    const n = text.match(/[\d.]+/g).map(Number);
    return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (c) => {
    const [r, g, b] = c.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
  const behind = (e) => {
    let c = [0, 0, 0, 0];
    for (; e; e = e.parentElement) {
      const own = rgba(getComputedStyle(e).backgroundColor);
      c = c[3] === 0 ? own : over(c, own);
      if (c[3] === 1) return c;
    }
    return over(c, [255, 255, 255, 1]);
  };
  let checked = 0;
  const bad = [];
  const want = (e, what, colour, back, least) => {
    checked++;
    const c = rgba(colour), r = ratio(c[3] < 1 ? over(c, back) : c, back);
    if (r < least) bad.push(`${what} ${e.tagName}.${e.className.baseVal ?? e.className} ${JSON.stringify((e.textContent || "").slice(0, 40))}: ${r.toFixed(2)}, want ${least}`);
  };
  const look = () => {
    for (const e of document.querySelectorAll("body, body *")) {
      if (!e.checkVisibility() || e.closest(".unseen")) continue;
      const s = getComputedStyle(e);
      if (e.closest("svg")) {
        if (e.tagName === "rect") want(e, "plot", s.fill, behind(e.closest("svg")), 3);
        continue;
      }
      if (e.tagName === "INPUT") {
        want(e, "border", s.borderTopColor, behind(e.parentElement), 3);
        want(e, "input", s.color, behind(e), 4.5);
        want(e, "placeholder", getComputedStyle(e, "::placeholder").color, behind(e), 4.5);
      } else if ([...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim())) {
        const size = parseFloat(s.fontSize), large = size >= 24 || (size >= 18.66 && Number(s.fontWeight) >= 700);
        want(e, "text", s.color, behind(e), large ? 3 : 4.5);
      }
      const before = getComputedStyle(e, "::before");
      if (before.content !== "none" && before.content !== "normal") want(e, "label", before.color, behind(e), 4.5);
    }
  };
  look();
  // The verdict in each of its levels.
  const verdict = document.querySelector("#verdict"), level = verdict.dataset.level;
  for (verdict.dataset.level of ["broken", "off", "waiting", "fine"]) want(verdict, "verdict " + verdict.dataset.level, getComputedStyle(verdict).color, behind(verdict), 4.5);
  verdict.dataset.level = level;
  // The outline of what has the focus.
  const link = document.querySelector("footer a");
  link.focus({ focusVisible: true });
  want(link, "outline", getComputedStyle(link).outlineColor, behind(document.body), 3);
  link.blur();
  return { checked, bad };
}
