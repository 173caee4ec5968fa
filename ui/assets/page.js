// Keeps a page current: the theme, ages, the event stream, and copying commands. The page works without it.
"use strict";
(() => {
  const root = document.documentElement, themes = ["system", "light", "dark"];
  let theme = "system";
  try { theme = localStorage.getItem("cke-theme") || theme; } catch { /* not allowed: the system's */ }
  const paint = () => { if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme; };
  paint();
  root.classList.add("js");

  document.addEventListener("DOMContentLoaded", () => {
    const one = (q, from = document) => from.querySelector(q), all = (q, from = document) => [...from.querySelectorAll(q)];
    const live = one("#live"), button = one("#theme"), address = document.body.dataset.events;
    let ahead = root.dataset.now - Date.now(); // of the daemon's clock
    let heard = Date.now(), opened = 0, trouble = "", seen = {}, source;

    button.hidden = false;
    const name = () => { one("b", button).textContent = ": " + theme; };
    name();
    button.onclick = () => {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      try { localStorage.setItem("cke-theme", theme); } catch { /* it holds for this page */ }
      paint();
      name();
    };

    const age = (ms) => {
      const s = Math.max(Math.floor(ms / 1000), 0), m = Math.floor(s / 60), h = Math.floor(m / 60);
      return s < 60 ? s + "s" : m < 60 ? m + "m" : h < 48 ? h + "h" : Math.floor(h / 24) + "d";
    };
    const set = (e, text) => { if (e && e.textContent !== text) e.textContent = text; };

    const tick = () => {
      if (document.hidden) return;
      const now = Date.now() + ahead, silent = Date.now() - heard;
      for (const e of all("time")) {
        const at = Date.parse(e.dateTime);
        if (!("in" in e.dataset)) set(e, age(now - at));
        else set(e, at <= now ? "expired" : age(at - now));
      }
      for (const e of all("[data-seen]")) {
        const at = seen[e.dataset.seen];
        e.classList.toggle("old", at > 0 ? now - at > 15000 : e.classList.contains("old"));
      }
      if (!address) return;
      const gone = silent > 4000;
      const aged = one("main").classList.contains("old");
      root.classList.toggle("gone", gone || trouble !== "");
      root.classList.toggle("aging", aged);
      set(live, gone ? "The daemon has not answered for " + age(silent) + "; trying again" : trouble ? "Not current: " + trouble : aged ? "Connected" : "Live");
      set(one(".gone", one("main")), gone ? "The daemon does not answer. The page shows how it was." : trouble ? "The page is not current: " + trouble : "");
      if (gone && Date.now() - opened > 8000) open(); // a connection may hang
    };

    // put shows a part that changed; what has the focus keeps it, and what is open stays open.
    const put = (id, html, sum) => {
      const part = one(`[data-part="${id}"]`);
      if (!part || part.dataset.sum === sum) return;
      const focus = part.contains(document.activeElement) ? document.activeElement : null;
      const links = all("a,button,summary", part), at = links.indexOf(focus), open = all("details", part).map((d) => d.open);
      part.innerHTML = html;
      part.dataset.sum = sum;
      all("details", part).forEach((d, i, now) => { if (now.length === open.length) d.open = open[i]; });
      ready(part);
      if (focus) ((focus.id && document.getElementById(focus.id)) || all("a,button,summary", part)[at])?.focus({ preventScroll: true });
    };

    const ready = (from) => all(".copy", from).forEach((b) => {
      b.hidden = false;
      b.onclick = async () => {
        try { await navigator.clipboard.writeText(one("code", b.parentNode).textContent); b.textContent = "Copied"; } catch { getSelection().selectAllChildren(one("code", b.parentNode)); b.textContent = "Selected"; }
        setTimeout(() => { b.textContent = "Copy"; }, 2000);
      };
    });

    const take = (e) => {
      const d = JSON.parse(e.data);
      heard = Date.now();
      ahead = d.now - heard;
      trouble = d.trouble || "";
      for (const id in d.parts || {}) put(id, d.parts[id], d.sums[id]);
      for (const n in d.seen || {}) saw(n, d.seen[n]);
      tick();
    };
    const saw = (name, at) => {
      seen[name] = at;
      for (const t of all(`[data-seen="${CSS.escape(name)}"] time[data-seen-at]`)) t.dateTime = new Date(at).toISOString();
    };

    // open starts the stream; a page whose stream is refused reads itself again instead.
    const open = () => {
      if (source) source.close();
      if (document.hidden) return;
      opened = Date.now();
      const stream = source = new EventSource(address);
      stream.onmessage = take;
      stream.onerror = () => { if (stream === source && stream.readyState === EventSource.CLOSED) again(stream); };
    };
    const again = async (stream) => {
      try {
        const answer = await fetch(location.href), page = new DOMParser().parseFromString(await answer.text(), "text/html");
        ahead = page.documentElement.dataset.now - Date.now();
        trouble = answer.ok ? "" : one("main .lead", page).textContent;
        heard = opened = Date.now() + 6000; // it is good until the next try
        for (const p of all("[data-part]", page)) put(p.dataset.part, p.innerHTML, p.dataset.sum);
        for (const t of all("[data-seen] time[data-seen-at]", page)) saw(t.closest("[data-seen]").dataset.seen, Date.parse(t.dateTime));
        tick();
      } catch { /* the daemon is gone: the next try */ }
      setTimeout(() => { if (stream === source) open(); }, 8000);
    };

    ready(document);
    if (address) {
      document.addEventListener("visibilitychange", () => { if (document.hidden) source.close(); else { heard = Date.now(); open(); } });
      open();
    }
    if ("retry" in document.body.dataset) {
      setInterval(async () => { try { if ((await fetch(location.href)).ok) location.reload(); } catch { /* the next try */ } }, 3000);
    }
    tick();
    setInterval(tick, 500);
  });
})();
