"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const ring = "path://M50 5A45 45 0 1 0 50 95A45 45 0 1 0 50 5ZM50 22A28 28 0 1 1 50 78A28 28 0 1 1 50 22Z";
  // A state is told by its shape as well as by its colour.
  const states = {
    good: ["good", "circle", "●"], bad: ["bad", "diamond", "◆"], culprit: ["first bad", "path://M50 3L61 38L98 38L68 60L79 96L50 74L21 96L32 60L2 38L39 38Z", "★"],
    skip: ["not testable", "triangle", "▲"], other: ["fails otherwise", "rect", "■"],
    unsure: ["undecided", "path://M50 95L5 10L95 10Z", "▼"], "": ["not judged", ring, "○"],
  };
  const stateOf = s => states[s] ? s : "";
  const named = s => states[stateOf(s)][0];
  const symbol = s => states[stateOf(s)][1];
  const sign = s => states[stateOf(s)][2];
  const css = name => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = s => s && css("--" + stateOf(s)) || css("--muted");
  const phaseColour = i => css("--p" + i % 10);
  const narrow = el => el.clientWidth < 560;
  const cut = (s, n) => s.length > n ? s.slice(0, n - 1) + "…" : s;
  const num = v => v === 0 ? "0" : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(2) : String(+v.toPrecision(4));
  const per = v => v > 0 && v < 1e-4 ? "< 0.01 %" : v < 1 && v > .9999 ? "> 99.99 %" : +(100 * v).toPrecision(4) + " %";

  // tip makes the text of a tooltip as nodes, so that nothing in it is taken for HTML.
  const tip = (title, ...lines) => {
    const el = document.createElement("div");
    el.className = "tip";
    el.append(Object.assign(document.createElement("b"), { textContent: title }));
    for (const l of lines) if (l) el.append(Object.assign(document.createElement("span"), { textContent: l }));
    return el;
  };
  const base = more => {
    const ink = css("--ink"), card = css("--card"), line = css("--line");
    return Object.assign({
      animation: false, backgroundColor: "transparent", textStyle: { color: ink, fontFamily: "system-ui, sans-serif" },
      tooltip: { trigger: "item", confine: true, backgroundColor: card, borderColor: line, textStyle: { color: ink } },
    }, more);
  };
  const axis = more => Object.assign({
    axisLine: { lineStyle: { color: css("--line") } }, axisTick: { show: false },
    nameTextStyle: { color: css("--muted") }, splitLine: { lineStyle: { color: css("--line"), opacity: .6 } },
  }, more, { axisLabel: Object.assign({ color: css("--muted"), hideOverlap: true }, more.axisLabel) });
  const legend = more => Object.assign({ type: "scroll", top: 0, left: 0, textStyle: { color: css("--ink") }, pageTextStyle: { color: css("--ink") }, pageIconColor: css("--ink"), itemWidth: 14, itemHeight: 10 }, more);
  const mark = (data, more) => Object.assign({ silent: true, symbol: "none", lineStyle: { color: css("--bad"), type: "dashed", width: 1.5 }, label: { color: css("--bad"), fontWeight: 600 }, data }, more);

  // whisker draws an interval with its middle.
  const whisker = horizontal => (params, api) => {
    const [low, mid, high] = [1, 2, 3].map(i => api.coord(horizontal ? [api.value(i), api.value(0)] : [api.value(0), api.value(i)]));
    const unit = Math.abs(api.size(horizontal ? [0, 1] : [1, 0])[horizontal ? 1 : 0]);
    const w = Math.max(4, Math.min(13, unit * .32)), c = api.visual("color");
    const seg = (x1, y1, x2, y2, lineWidth) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: c, lineWidth } });
    const kids = horizontal
      ? [seg(low[0], low[1], high[0], high[1], 1.5), seg(low[0], low[1] - 4, low[0], low[1] + 4, 1.5), seg(high[0], low[1] - 4, high[0], low[1] + 4, 1.5)]
      : [seg(low[0], low[1], high[0], high[1], 1.5), seg(low[0] - 4, low[1], low[0] + 4, low[1], 1.5), seg(low[0] - 4, high[1], low[0] + 4, high[1], 1.5), seg(mid[0] - w, mid[1], mid[0] + w, mid[1], 3.5)];
    return { type: "group", children: kids };
  };

  const draw = {};

  draw.search = (el, d, pick) => {
    const m = d.metrics[pick.metric], all = pick.commits === "all";
    const place = new Map(d.commits.map(c => [c.at, c]));
    const xs = all ? Array.from({ length: d.length }, (_, i) => i) : d.commits.map(c => c.at);
    const x = new Map(xs.map((at, i) => [at, i]));
    const stateAt = at => stateOf((place.get(at) || {}).state);
    const commit = at => place.get(at) || { commit: "", subject: "", why: "" };
    const title = at => sign(stateAt(at)) + " " + commit(at).commit.slice(0, 10) + " " + cut(commit(at).subject, 70);
    const where = at => at === 0 ? "the good end" : d.ordered ? `commit ${at} of ${d.length - 1}` : "";
    const unit = m.unit ? " " + m.unit : "";
    const used = ["good", "bad", "culprit", "skip", "other", "unsure", ""].filter(s => d.commits.some(c => stateOf(c.state) === s));
    const culprit = d.commits.find(c => c.state === "culprit");
    const series = [];
    for (const s of used) {
      const name = named(s);
      series.push({
        name, type: "scatter", symbol: symbol(s), symbolSize: 9, itemStyle: { color: colour(s), opacity: .6 }, z: 4,
        data: m.points.filter(p => stateAt(p.at) === s).map(p => ({ value: [x.get(p.at), p.y], p })),
        tooltip: { formatter: q => { const p = q.data.p; return tip(title(p.at), where(p.at), `launch ${p.launch}: ${num(p.y)}${unit}`, p.n > 1 && `median of ${p.n} samples, ${num(p.low)} to ${num(p.high)}`, p.ended); } },
      });
      series.push({
        name, type: "custom", renderItem: whisker(false), itemStyle: { color: colour(s) }, z: 3, encode: { x: 0, y: [1, 2, 3] },
        data: m.levels.filter(l => stateAt(l.at) === s).map(l => ({ value: [x.get(l.at), l.low, l.y, l.high], l })),
        tooltip: { formatter: q => { const l = q.data.l; return tip(title(l.at), where(l.at), `median ${num(l.y)}${unit} of ${l.n} ${l.n === 1 ? "launch" : "launches"}`, `${num(l.low)} to ${num(l.high)}${unit}: ${l.how}`, commit(l.at).why); } },
      });
      series.push({
        name, type: "scatter", xAxisIndex: 1, yAxisIndex: 1, symbol: symbol(s), symbolSize: s === "culprit" ? 18 : 12, itemStyle: { color: colour(s) },
        data: d.commits.filter(c => stateOf(c.state) === s).map(c => ({ value: [x.get(c.at), "verdict"], c })),
        tooltip: { formatter: q => { const c = q.data.c; return tip(title(c.at), where(c.at), named(c.state), c.why); } },
      });
    }
    if (d.ordered) series.push({ name: "level", type: "line", silent: true, showSymbol: false, step: "end", z: 1, lineStyle: { color: css("--muted"), width: 1, opacity: .55 }, data: m.levels.map(l => [x.get(l.at), l.y]), tooltip: { show: false } });
    const marks = [];
    if (culprit) marks.push({ xAxis: x.get(culprit.at), label: { formatter: "first bad: " + culprit.commit.slice(0, 7), position: "end" } });
    const top = Math.max(...m.points.map(p => p.y));
    if (m.limit && m.limit < 3 * top) marks.push({ yAxis: m.limit, label: { formatter: "limit " + num(m.limit) + unit, position: "insideStartTop" } });
    if (series.length && marks.length) series[1].markLine = mark(marks);
    const label = i => d.ordered ? (xs[i] === 0 ? "good" : String(xs[i])) : commit(xs[i]).commit.slice(0, 7);
    return base({
      legend: legend({ data: used.map(s => ({ name: named(s), icon: symbol(s) })) }),
      grid: [{ left: 64, right: 18, top: 74, bottom: 118 }, { left: 64, right: 18, height: 34, bottom: 76 }],
      dataZoom: [{ type: "inside", xAxisIndex: [0, 1], zoomOnMouseWheel: "ctrl", moveOnMouseMove: true, moveOnMouseWheel: false },
        { type: "slider", xAxisIndex: [0, 1], height: 18, bottom: 8, brushSelect: false, showDetail: false, borderColor: css("--line"), textStyle: { color: css("--muted") } }],
      xAxis: [axis({ type: "category", data: xs.map(String), axisLabel: { show: false }, splitLine: { show: false } }),
        axis({ type: "category", gridIndex: 1, data: xs.map(String), name: all ? "commits of the range" : "tested commits, by their place in the range", nameLocation: "middle", nameGap: 28, axisLabel: { formatter: (_, i) => label(i) } })],
      yAxis: [axis({ type: "value", scale: true, name: m.name + (m.unit ? ", " + m.unit : ""), nameGap: 28, nameTextStyle: { color: css("--muted"), align: "left", padding: [0, 0, 0, -56] } }),
        axis({ type: "category", gridIndex: 1, data: ["verdict"], splitLine: { show: false } })],
      series,
    });
  };
  draw.search.height = () => 446;
  draw.search.controls = d => [
    ["metric", "Metric", d.metrics.map((m, i) => [i, m.name])],
    ["commits", "Commits", d.length > 60 ? [["tested", "tested ones only"], ["all", "the whole range"]] : [["all", "the whole range"], ["tested", "tested ones only"]]],
  ];

  // bars is a chart of one horizontal bar for each row.
  const bars = (el, rows, more) => {
    const wide = Math.min(230, Math.round(el.clientWidth * .36));
    return base({
      grid: { left: wide + 8, right: 90, top: 8, bottom: 34 },
      xAxis: axis({ type: "value", min: 0, ...more.x }),
      yAxis: axis({ type: "category", inverse: true, data: rows.map(r => r.name), axisLabel: { color: css("--ink"), width: wide, overflow: "truncate" } }),
      series: [{ type: "bar", barMaxWidth: 22, data: rows.map(r => ({ value: r.value, itemStyle: { color: r.colour, borderRadius: [0, 3, 3, 0] }, r })),
        label: { show: true, position: "right", color: css("--ink"), formatter: q => q.data.r.label }, tooltip: { formatter: q => tip(q.data.r.name, ...q.data.r.lines) } }],
    });
  };
  const barsHeight = n => 52 + 30 * Math.max(n, 2);

  draw.who = (el, d) => bars(el, d.map(w => ({ name: (w.state ? sign(w.state) + " " : "") + w.name, value: w.probability, colour: w.state ? colour(w.state) : css("--skip"), label: per(w.probability), lines: [per(w.probability)] })),
    { x: { max: 1, interval: .5, axisLabel: { formatter: v => 100 * v + " %" } } });
  draw.who.height = d => barsHeight(d.length);

  draw.history = (el, d) => {
    const unit = d.unit ? " " + d.unit : "", all = d.commits.map((c, i) => ({ c, i }));
    const known = all.filter(x => x.c.y !== null), failed = all.filter(x => x.c.y === null);
    const bottom = known.length ? Math.min(...known.map(x => x.c.low ?? x.c.y)) : 0;
    const text = q => { const c = q.data.x.c; return tip(c.commit + " " + cut(c.subject, 70), c.day, c.words, c.ratio !== "-" && c.ratio + " times the base", `${c.n} ${c.n === 1 ? "launch" : "launches"}`); };
    return base({
      grid: { left: 64, right: 18, top: 34, bottom: 62 },
      dataZoom: d.commits.length > 60 ? [{ type: "slider", height: 16, bottom: 6, brushSelect: false, showDetail: false, borderColor: css("--line") }] : [],
      xAxis: axis({ type: "category", data: d.commits.map(c => c.commit.slice(0, 7)), axisLabel: { rotate: narrow(el) || d.commits.length > 12 ? 45 : 0 }, splitLine: { show: false } }),
      yAxis: axis({ type: "value", scale: true, name: d.name + (d.unit ? ", " + d.unit : ""), nameTextStyle: { color: css("--muted"), align: "left" } }),
      series: [
        { name: "median", type: "line", symbol: "circle", symbolSize: 9, showAllSymbol: true, z: 3, lineStyle: { color: css("--p0"), width: 1.5, opacity: .6 }, itemStyle: { color: css("--p0") }, data: all.map(x => ({ value: [x.i, x.c.y === null ? "-" : x.c.y], x })), tooltip: { formatter: text } },
        { type: "custom", silent: true, z: 2, renderItem: whisker(false), itemStyle: { color: css("--p0") }, encode: { x: 0, y: [1, 2, 3] }, tooltip: { show: false },
          data: known.filter(x => x.c.low !== null && x.c.high !== null).map(x => [x.i, x.c.low, x.c.y, x.c.high]) },
        { name: "failed", type: "scatter", symbol: symbol("bad"), symbolSize: 13, z: 4, itemStyle: { color: css("--bad") }, data: failed.map(x => ({ value: [x.i, bottom], x })), tooltip: { formatter: text } },
      ],
    });
  };
  draw.history.height = () => 300;

  draw.phases = (el, d) => {
    const wide = narrow(el) ? 100 : 190, rows = d.candidates;
    const series = d.phases.map((phase, i) => ({
      name: phase, type: "bar", stack: "time", barMaxWidth: 22, itemStyle: { color: phaseColour(i), borderColor: css("--card"), borderWidth: 1 },
      data: rows.map(c => ({ value: c.seconds[i], c })),
      tooltip: { formatter: q => tip(sign(q.data.c.state) + " " + q.data.c.name, `${phase}: ${num(q.data.c.seconds[i])} s, median of ${q.data.c.n}`, `longest ${num(q.data.c.worst[i])} s`,
        d.limits[i] ? `limit ${num(d.limits[i])} s, ${per(q.data.c.worst[i] / d.limits[i])} used` : "no limit of its own", q.data.c.ended) },
    }));
    series.push({ name: "ended", type: "bar", stack: "time", data: rows.map(c => ({ value: 0, c })), silent: true, tooltip: { show: false },
      label: { show: true, position: "right", color: css("--bad"), formatter: q => q.data.c.ended ? cut(q.data.c.ended, narrow(el) ? 12 : 34) : "" } });
    const longest = Math.max(...rows.map(c => c.seconds.reduce((a, b) => a + b, 0)));
    if (d.whole && d.whole < 3 * longest) series[0].markLine = mark([{ xAxis: d.whole, label: { position: "start", formatter: "limit of a run " + num(d.whole) + " s" } }]);
    return base({
      aria: { enabled: true, label: { enabled: false }, decal: { show: true } },
      legend: legend({ data: d.phases }),
      grid: { left: wide + 8, right: !rows.some(c => c.ended) ? 26 : narrow(el) ? 78 : 210, top: 46, bottom: 44 },
      xAxis: axis({ type: "value", name: "seconds", nameLocation: "middle", nameGap: 26 }),
      yAxis: axis({ type: "category", inverse: true, data: rows.map(c => sign(c.state) + " " + c.name), axisLabel: { color: css("--ink"), width: wide, overflow: "truncate" } }),
      series,
    });
  };
  draw.phases.height = d => 100 + 28 * Math.max(d.candidates.length, 2);

  draw.limits = (el, d) => {
    const rows = d.phases.map((name, i) => ({ name, limit: d.limits[i], used: c => c.worst[i] })).filter(r => r.limit);
    const build = d.phases.indexOf("build");
    if (d.whole) rows.push({ name: "whole run", limit: d.whole, used: c => c.worst.reduce((a, b, i) => a + (i === build ? 0 : b), 0) });
    const used = [...new Set(d.candidates.map(c => stateOf(c.state)))];
    const series = used.map(s => ({
      name: named(s), type: "scatter", symbol: symbol(s), symbolSize: s === "culprit" ? 15 : 11, symbolOffset: [0, s === "good" ? -5 : 5], itemStyle: { color: colour(s), opacity: .75 },
      data: d.candidates.filter(c => stateOf(c.state) === s).flatMap(c => rows.map((r, i) => ({ value: [r.used(c) / r.limit, i], c, r }))).filter(x => x.value[0] > 0),
      tooltip: { formatter: q => tip(sign(q.data.c.state) + " " + q.data.c.name, `${q.data.r.name}: ${num(q.data.r.used(q.data.c))} s`, `${per(q.data.value[0])} of its limit, ${num(q.data.r.limit)} s`) },
    }));
    series[0].markLine = mark([{ xAxis: 1, label: { position: "start", formatter: "limit" } }]);
    const wide = narrow(el) ? 104 : 150;
    return base({
      legend: legend({ data: used.map(s => ({ name: named(s), icon: symbol(s) })) }),
      grid: { left: wide + 8, right: 26, top: 52, bottom: 34 },
      xAxis: axis({ type: "value", min: 0, splitNumber: narrow(el) ? 3 : 5, max: v => Math.max(1.05, v.max * 1.03), axisLabel: { formatter: v => Math.round(100 * v) + " %" } }),
      yAxis: axis({ type: "category", inverse: true, data: rows.map(r => `${r.name}, ${num(r.limit)} s`), axisLabel: { color: css("--ink"), width: wide, overflow: "truncate" }, splitLine: { show: true, lineStyle: { color: css("--line"), opacity: .6 } } }),
      series,
    });
  };
  draw.limits.height = d => 100 + 30 * Math.max(2, d.limits.filter(l => l).length + (d.whole ? 1 : 0));

  draw.effects = (el, d) => {
    const wide = narrow(el) ? 110 : 230, pc = r => (r >= 1 ? "+" : "") + (100 * (r - 1)).toFixed(1) + " %";
    return base({
      grid: { left: wide + 8, right: 66, top: 8, bottom: 34 },
      xAxis: axis({ type: "value", splitNumber: narrow(el) ? 2 : 5, axisLabel: { formatter: v => (v > 0 ? "+" : "") + v + " %" } }),
      yAxis: axis({ type: "category", inverse: true, data: d.terms.map(t => t.name), axisLabel: { color: css("--ink"), width: wide, overflow: "truncate" } }),
      series: [{ type: "bar", barMaxWidth: 16, data: d.terms.map(t => ({ value: 100 * (t.ratio - 1), t, itemStyle: { color: t.ratio > 1 ? css("--p5") : css("--p0"), opacity: .75 } })),
        tooltip: { formatter: q => tip(q.data.t.name, `${pc(q.data.t.ratio)} (${pc(q.data.t.low)} to ${pc(q.data.t.high)})`) } },
      { type: "custom", silent: true, renderItem: whisker(true), itemStyle: { color: css("--ink") }, encode: { x: [1, 2, 3], y: 0 }, data: d.terms.map((t, i) => [i, 100 * (t.low - 1), 100 * (t.ratio - 1), 100 * (t.high - 1)]), tooltip: { show: false } }],
    });
  };
  draw.effects.height = d => barsHeight(d.terms.length);

  draw.device = (el, d) => {
    const held = s => s.throttled || s.shared;
    const line = (name, key, i, c, dash) => ({
      name, type: "line", xAxisIndex: i ? 1 : 0, yAxisIndex: i, symbol: s => "circle", symbolSize: 5, lineStyle: { color: c, width: 2, type: dash || "solid" }, itemStyle: { color: c },
      data: d.samples.filter(s => s[key]).map(s => ({ value: [s.at, s[key]], s })),
      tooltip: { formatter: q => { const s = q.data.s; return tip(`${s.after ? "after" : "before"} launch ${s.launch}, ${num(s.at)} s`, `SM clock ${num(s.sm_clock)} MHz`, s.mem_clock && `memory clock ${num(s.mem_clock)} MHz`, s.temperature && `${num(s.temperature)} °C`, s.power_w && `${num(s.power_w)} W`, s.throttled && "held down by " + s.throttled, s.shared); } },
    });
    const clock = line("SM clock", "sm_clock", 0, css("--p0"));
    clock.symbol = (v, q) => held(q.data.s) ? "triangle" : "circle";
    clock.symbolSize = (v, q) => held(q.data.s) ? 15 : 5;
    clock.data.forEach(x => { if (held(x.s)) x.itemStyle = { color: css("--bad") }; });
    const bad = d.samples.filter(held);
    if (bad.length) clock.markPoint = { silent: true, symbol: "triangle", symbolSize: 1, label: { show: true, position: "bottom", color: css("--bad"), fontWeight: 600, distance: 12, formatter: bad[0].throttled ? "held down" : "shared" }, data: [{ coord: [bad[0].at, bad[0].sm_clock] }] };
    return base({
      legend: legend({ data: ["SM clock", "temperature", "power"] }),
      grid: [{ left: 64, right: 60, top: 50, height: "34%" }, { left: 64, right: 60, bottom: 46, height: "30%" }],
      xAxis: [axis({ type: "value", max: "dataMax", axisLabel: { show: false }, splitLine: { show: false } }), axis({ type: "value", gridIndex: 1, max: "dataMax", name: "seconds since the job began", nameLocation: "middle", nameGap: 26, splitLine: { show: false } })],
      yAxis: [axis({ type: "value", scale: true, name: "MHz", min: v => v.max - v.min < 100 ? 100 * Math.floor(v.min / 100 - 1) : null, max: v => v.max - v.min < 100 ? 100 * Math.ceil(v.max / 100 + 1) : null }), axis({ type: "value", gridIndex: 1, scale: true, name: "°C" }), axis({ type: "value", gridIndex: 1, scale: true, name: "W", splitLine: { show: false } })],
      series: [clock, line("temperature", "temperature", 1, css("--p5")), line("power", "power_w", 2, css("--p3"), "dashed")],
    });
  };
  draw.device.height = () => 390;

  draw.cost = (el, d) => bars(el, d.phases.map((p, i) => ({ name: p.phase, value: p.seconds, colour: phaseColour(i), label: `${num(p.seconds)} s, ${Math.round(100 * p.share)} %`, lines: [`${num(p.seconds)} s`, per(p.share) + " of the time"] })), { x: { name: "" } });
  draw.cost.height = d => barsHeight(d.phases.length);

  const controls = (box, chart, pick, changed) => {
    for (const [key, name, options] of (draw[chart.kind].controls || (() => []))(chart.data)) {
      if (options.length < 2) { pick[key] = options[0][0]; continue; }
      const label = document.createElement("label"), select = document.createElement("select");
      label.append(name + " ", select);
      for (const [value, text] of options) select.append(new Option(text, value));
      pick[key] = options[0][0];
      select.addEventListener("change", () => { pick[key] = select.value; changed(); });
      box.append(label);
    }
  };

  const shown = charts.map((chart, i) => {
    const el = document.getElementById("chart-" + i), pick = {};
    el.style.height = draw[chart.kind].height(chart.data, el) + "px";
    const instance = echarts.init(el, null, { renderer: "svg" });
    const render = () => instance.setOption(draw[chart.kind](el, chart.data, pick), true);
    controls(el.parentElement.querySelector(".controls"), chart, pick, render);
    render();
    return { el, instance, render, width: el.clientWidth };
  });
  const again = () => shown.forEach(c => c.render());
  new ResizeObserver(() => shown.forEach(c => {
    if (c.el.clientWidth === c.width || !c.el.clientWidth) return;
    c.width = c.el.clientWidth;
    c.instance.resize();
    c.render();
  })).observe(document.querySelector("main"));

  const button = document.getElementById("theme"), themes = ["auto", "light", "dark"];
  const kept = () => { try { return localStorage.getItem("kbisect-theme"); } catch { return null; } };
  const set = theme => {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    button.firstElementChild.textContent = theme;
    try { localStorage.setItem("kbisect-theme", theme); } catch { /* a page from a file may have no storage */ }
    again();
  };
  button.hidden = false;
  button.addEventListener("click", () => set(themes[(themes.indexOf(button.firstElementChild.textContent) + 1) % 3]));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  if (themes.includes(kept()) && kept() !== "auto") set(kept());
  root.dataset.charts = String(shown.length);
})();
