// Returns what is wrong with a page as it is drawn: horizontal scrolling, texts and shapes with too little contrast, what has
// no name, and texts that run out of their boxes.
(() => {
  const faults = new Set(), root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    faults.add(`scrolls horizontally: ${root.scrollWidth} of ${root.clientWidth}`);
    for (const e of document.querySelectorAll("body *")) {
      const r = e.getBoundingClientRect();
      if (r.width > 1 && r.right > root.clientWidth + 1 && !e.closest(".scroll")) faults.add("runs out: " + e.outerHTML.slice(0, 100));
    }
  }
  const parse = (c) => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  const shown = (e) => { const r = e.getBoundingClientRect(); return r.width > 1 && r.height > 1 && getComputedStyle(e).visibility !== "hidden" && !e.closest(".vh,.shapes,.skip"); };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = texts.nextNode());) {
    const e = n.parentElement;
    if (!n.textContent.trim() || !shown(e) || e.closest("noscript,option")) continue;
    const s = getComputedStyle(e), size = parseFloat(s.fontSize), large = size >= 24 || size >= 18.66 && s.fontWeight >= 700;
    let opacity = 1;
    for (let p = e; p; p = p.parentElement) opacity *= getComputedStyle(p).opacity;
    const c = ratio(parse(s.color), ground(e));
    if (c < (large ? 3 : 4.5) || opacity < 1) faults.add(`contrast ${c.toFixed(2)}, opacity ${opacity}: ${n.textContent.trim().slice(0, 40)}`);
    if (size < 12) faults.add(`${size} px: ${n.textContent.trim().slice(0, 40)}`);
  }
  for (const e of document.querySelectorAll("svg.h, .ms svg, h3 svg, .legend svg:not(.key)")) {
    if (shown(e) && ratio(parse(getComputedStyle(e).color), ground(e)) < 3) faults.add("contrast of " + e.outerHTML);
  }
  for (const e of document.querySelectorAll(".tick, .fill, .fill-bad, .fill-warn, .fill-ok")) {
    const s = getComputedStyle(e);
    if (ratio(parse(s.fill === "none" ? s.stroke : s.fill), ground(e.closest("svg").parentElement)) < 3) faults.add("contrast of " + e.outerHTML);
  }
  for (const e of document.querySelectorAll("a, button:not([hidden])")) if (!e.textContent.trim()) faults.add("has no name: " + e.outerHTML);
  for (const e of document.querySelectorAll("svg:not([aria-hidden])")) if (!e.closest("[aria-hidden]") && !e.getAttribute("aria-label")) faults.add("has no text: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("table")) if (!e.caption) faults.add("has no caption: " + e.className);
  for (const e of document.querySelectorAll("input, select")) if (!e.labels.length) faults.add("has no label: " + e.name);
  for (const e of document.querySelectorAll(".members li, .problem, .note, .cmd, h1, h2, .lead")) if (e.scrollWidth > e.clientWidth + 1) faults.add("runs out of its box: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll(".legend > svg")) faults.add("a key can be in another line than its word: " + e.outerHTML);
  for (const e of document.querySelectorAll(".legend > span")) if (e.offsetHeight > 24) faults.add("a key wraps: " + e.textContent);
  if (new Set([...document.querySelectorAll(".marks > span")].map((e) => e.offsetTop)).size > 2) faults.add("the marks take more than two lines");
  if (document.querySelectorAll("h1").length !== 1) faults.add("h1: " + document.querySelectorAll("h1").length);
  if (!document.title || document.documentElement.lang !== "en") faults.add("no title or language");
  return [...faults];
})()
