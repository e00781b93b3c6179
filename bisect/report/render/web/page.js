"use strict";
(() => {
  const root = document.documentElement, all = (q, el = document) => [...el.querySelectorAll(q)];

  // A mark says what its title holds: at once where one points at it, taps it, or steps to it by the arrow keys.
  const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  for (const title of all(".chart title")) {
    title.parentElement.dataset.t = title.textContent;
    title.remove(); // the browser's own would come on top, late
  }
  let at = null;
  const show = el => {
    at?.classList.remove("at");
    at = el;
    tip.hidden = !el;
    if (!el) return;
    el.classList.add("at");
    tip.textContent = el.dataset.t;
    const box = el.getBoundingClientRect(), w = tip.offsetWidth, h = tip.offsetHeight;
    const x = Math.min(Math.max(4, box.left + box.width / 2 - w / 2), root.clientWidth - w - 4);
    const y = box.top - h - 8 > 0 ? box.top - h - 8 : box.bottom + 8;
    tip.style.transform = `translate(${x + scrollX}px, ${y + scrollY}px)`;
  };
  // All marks of one commit belong together, in every picture.
  const select = key => all("[data-k]").forEach(el => el.classList.toggle("sel", key !== undefined && el.dataset.k === key));
  let selected;
  const marked = e => e.target.closest?.("[data-t]");
  document.addEventListener("pointerover", e => { if (marked(e)) show(marked(e)); else if (!tip.hidden && e.pointerType === "mouse") show(null); });
  document.addEventListener("click", e => {
    const key = e.target.closest?.(".chart [data-k]")?.dataset.k;
    show(marked(e) ?? null);
    selected = key === selected ? undefined : key;
    select(selected);
  });
  for (const box of all(".chart [role=group]")) {
    box.addEventListener("keydown", e => {
      const marks = all("[data-t]", box).filter(el => el.getClientRects().length), step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (e.key === "Escape") { show(null); select(); }
      if (e.key === "Enter" && at) select(at.dataset.k);
      if (!step || !marks.length) return;
      e.preventDefault();
      const i = marks.indexOf(at);
      show(marks[i < 0 ? (step > 0 ? 0 : marks.length - 1) : (i + step + marks.length) % marks.length]);
    });
    box.addEventListener("blur", () => show(null));
  }

  // The replay of a search: its first steps, up to one.
  for (const box of all(".replay")) {
    const range = box.querySelector("input"), out = box.querySelector("output"), steps = all(".step", box.parentElement);
    const go = () => {
      const n = +range.value;
      steps.forEach((s, i) => { s.classList.toggle("later", i >= n); s.classList.toggle("now", i === n - 1); });
      out.textContent = steps[n - 1]?.dataset.words ?? "";
    };
    range.addEventListener("input", go);
    box.hidden = false;
    go();
  }

  const button = document.getElementById("theme"), themes = ["auto", "light", "dark"];
  const kept = () => { try { return localStorage.getItem("kbisect-theme"); } catch { return null; } };
  const set = theme => {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    button.firstElementChild.textContent = theme;
    try { localStorage.setItem("kbisect-theme", theme); } catch { /* a page from a file may have no storage */ }
  };
  button.hidden = false;
  button.addEventListener("click", () => set(themes[(themes.indexOf(button.firstElementChild.textContent) + 1) % 3]));
  if (themes.includes(kept()) && kept() !== "auto") set(kept());
  for (const b of all("button.copy")) {
    b.hidden = !navigator.clipboard;
    b.addEventListener("click", () => navigator.clipboard.writeText(b.dataset.copy).then(() => { b.textContent = "copied"; }));
  }
  root.dataset.ready = "yes";
})();
