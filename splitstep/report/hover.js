"use strict";
const make = (parent, kind, text) => {
  const made = document.createElement({ i: "i", token: "span", "dot particle": "i" }[kind] ?? "div");
  made.className = kind;
  made.textContent = text;
  return parent.appendChild(made);
};
const tint = (element, colour) => element.style.setProperty("--c", typeof colour === "number" ? `var(--c${colour})` : colour);

// What is under the pointer: the tips of a chart are [x, y or null, head, [[colour, text], ...]], x and y in [0, 1].
// `tipsNow` returns them; `chosen` hears which one is shown, by its place among them, or -1.
const MOST = 4; // tips of points that overlap
const hover = (area, tipsNow, chosen = () => {}) => {
  const cursor = make(area, "cursor", ""), box = make(area, "tip", "");
  let at = -1; // of the tip that is shown
  const hide = () => { cursor.hidden = box.hidden = true; chosen(-1); };
  const showTip = (tips, index) => {
    const { width, height } = area.getBoundingClientRect(), nearest = tips[index], [tx, ty] = nearest;
    const apart = ([x, y]) => Math.hypot((x - tx) * width, ((y ?? 0) - (ty ?? 0)) * height);
    const near = tips.filter((tip) => tip !== nearest && tip[1] !== null && apart(tip) < 6);
    let before = null; // points of one name have one head
    box.replaceChildren();
    for (const [, , head, lines] of [nearest, ...near.slice(0, MOST - 1)]) {
      if (head !== before) make(box, "head", head).dir = "auto";
      before = head;
      for (const [colour, text] of lines) tint(make(box, "line", text), colour);
    }
    if (near.length >= MOST) make(box, "head", `and ${near.length - MOST + 1} more at this place`);
    cursor.hidden = ty !== null;
    box.hidden = false;
    cursor.style.left = `${tx * 100}%`;
    const inside = (place, room) => `${Math.max(0, Math.min(room, place))}px`;
    const left = tx * width, wide = box.offsetWidth, high = box.offsetHeight, right = left + 14 + wide <= width;
    const beside = right || left - 14 - wide >= 0; // else above or below, so that it does not cover its point
    const over = ty * height - 14 - high;
    const top = ty === null ? 8 : beside ? ty * height - high / 2 : over >= 0 ? over : ty * height + 14;
    box.style.left = inside(beside ? (right ? left + 14 : left - 14 - wide) : left - wide / 2, width - wide);
    box.style.top = inside(top, height - high);
    at = index;
    chosen(index);
  };
  const follow = (event) => {
    const { left, top, width, height } = area.getBoundingClientRect(), tips = tipsNow();
    const x = event.clientX - left, y = event.clientY - top;
    const far = ([tx, ty]) => ty === null ? Math.abs(tx * width - x) : Math.hypot(tx * width - x, ty * height - y);
    if (tips.length) showTip(tips, tips.reduce((one, tip, two) => (far(tip) < far(tips[one]) ? two : one), 0));
  };
  const show = (index) => {
    const tips = tipsNow();
    if (tips[index]) showTip(tips, index);
  };
  area.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") hide();
    if (!move) return;
    event.preventDefault();
    show(Math.max(0, Math.min(tipsNow().length - 1, at + move)));
  });
  hide();
  box.setAttribute("role", "status"); // read aloud if the arrow keys choose
  area.tabIndex = 0;
  area.setAttribute("role", "group");
  area.setAttribute("aria-label", `${area.querySelector("svg").getAttribute("aria-label") || "chart"}: arrow keys read its figures`);
  area.addEventListener("pointermove", follow);
  area.addEventListener("pointerdown", follow);
  area.addEventListener("pointerleave", hide);
  area.addEventListener("blur", hide);
  return { show, hide, again: () => (box.hidden ? undefined : show(at)) };
};
for (const plot of document.querySelectorAll("[data-tips]")) {
  const tips = JSON.parse(plot.dataset.tips);
  if (tips.length) hover(plot.querySelector(".area"), () => tips);
}

// A button and a slider that move through places; `draw(at)` draws any place, also between two of them.
const RATE = 3; // places a second
const player = (root, where, draw) => {
  const [controls, button, range, speed, title] =
    [".controls", ".play", "[type=range]", ".speed", ".at"].map((one) => root.querySelector(one));
  const last = where.length - 1, still = matchMedia("(prefers-reduced-motion: reduce)");
  let at = Number(range.value), frame = 0, before = 0;
  const go = (to) => {
    at = Math.min(to, last);
    const whole = Math.round(at);
    range.value = whole;
    range.setAttribute("aria-valuetext", where[whole]);
    title.textContent = where[whole];
    draw(still.matches ? whole : at);
  };
  const pause = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    button.textContent = "Play";
    go(Math.round(at));
  };
  const step = (now) => {
    go(at + ((now - before) / 1000) * RATE * Number(speed?.value ?? 1));
    before = now;
    if (at < last) frame = requestAnimationFrame(step);
    else pause();
  };
  const play = () => {
    button.textContent = "Pause";
    if (at >= last) go(0);
    frame = requestAnimationFrame((now) => { before = now; step(now); });
  };
  button.addEventListener("click", () => (frame ? pause() : play()));
  range.addEventListener("input", () => {
    at = Number(range.value);
    pause();
  });
  controls.hidden = false;
  go(at);
  return () => go(at);
};

const rowsOf = new Map(); // charts that are drawn from their figures: how to make columns and rows of them
const back = (place, low, high) => Number((low + place * (high - low)).toPrecision(4));

for (const root of document.querySelectorAll("[data-slider]")) {
  const { stops, columns, ends, groups, planes } = JSON.parse(root.dataset.slider);
  if (!planes) {
    const charts = [...root.children].filter((one) => one.className === "stop");
    player(root, stops, (at) => charts.forEach((chart, i) => { chart.hidden = i !== Math.round(at); }));
    continue;
  }
  const [left, right, low, high] = ends, paths = root.querySelectorAll(".area .dots");
  const points = (numbers) => Array.from({ length: numbers.length / 2 }, (_, i) => [numbers[2 * i], numbers[2 * i + 1]]);
  const placed = ([re, im]) => [(re - left) / (right - left), (high - im) / (high - low)];
  const said = ([re, im]) => `${re} ${im < 0 ? "\u2212" : "+"} ${Math.abs(im)}i, size ${Number(Math.hypot(re, im).toPrecision(4))}`;
  let shown = -1, tips = [];
  const draw = (at) => {
    if (shown === Math.round(at)) return;
    shown = Math.round(at);
    const found = planes[shown].map(points);
    paths.forEach((path, g) => path.setAttribute("d", found[g].map(placed)
      .map(([x, y]) => `M${(x * 1000).toFixed(1)} ${(y * 1000).toFixed(1)}h0`).join("")));
    tips = found.flatMap((group, g) => group.map((z) => [...placed(z), groups[g][1], [[groups[g][0], said(z)]]]));
    tip.hide();
  };
  const tip = hover(root.querySelector(".area"), () => tips);
  player(root, stops, draw);
  rowsOf.set(root, () => ({ columns, rows: stops.flatMap((stop, k) =>
    groups.flatMap(([, name], g) => points(planes[k][g]).map((z) => [stop, name, ...z]))) }));
}

for (const root of document.querySelectorAll("[data-particles]")) {
  const { columns, states, where, ends, norms, places, trail, texts } = JSON.parse(root.dataset.particles);
  const [area, svg, strip, by, choice] =
    [".area", ".area > svg", ".tokens", ".by", ".text"].map((one) => root.querySelector(one));
  const visible = (token) => token.replaceAll("\n", "\u23ce").replaceAll("\r", "\u240d").replaceAll("\t", "\u21e5") || "\u2205";
  const range = Math.log(norms[1] / norms[0]) || 1;
  let text, dots = [], trails = [], tokens = [], now = [], picked = -1, at = states.length - 1;
  const colour = (k, i) => {
    if (by.value === "cluster") return text.cluster[k][i] < 0 ? -1 : text.cluster[k][i] % 8;
    const share = Math.log(Math.max(text.norm[k][i] ?? norms[0], norms[0]) / norms[0]) / range;
    return `color-mix(in oklab,var(--late) ${(100 * share).toFixed(0)}%,var(--early))`;
  };
  const exact = (k, i) => text.x[k][i] === null || text.y[k][i] === null ? null : [text.x[k][i] / places, 1 - text.y[k][i] / places];
  const place = (k, i) => exact(k, i)?.map((one) => Math.max(0, Math.min(1, one)));
  const beyond = (k, i) => exact(k, i)?.some((one) => one < 0 || one > 1);
  const between = (from, to, share) => from && to && [0, 1].map((d) => from[d] + share * (to[d] - from[d]));
  const draw = (to) => {
    at = to;
    const k = Math.floor(at), next = Math.min(k + 1, states.length - 1), whole = Math.round(at);
    now = text.tokens.map((_, i) => between(place(k, i), place(next, i), at - k));
    now.forEach((point, i) => {
      const first = i === picked ? 0 : Math.max(0, k + 1 - trail);
      const line = Array.from({ length: k + 1 - first }, (_, j) => place(first + j, i)).concat([point]).filter(Boolean);
      trails[i].setAttribute("d", line.map(([x, y], j) => `${j ? "L" : "M"}${(1000 * x).toFixed(1)} ${(1000 * y).toFixed(1)}`).join(""));
      dots[i].hidden = !point;
      dots[i].classList.toggle("beyond", Boolean(beyond(whole, i)));
      if (point) [dots[i].style.left, dots[i].style.top] = point.map((one) => `${(100 * one).toFixed(2)}%`);
      for (const one of [dots[i], trails[i], tokens[i]]) tint(one, colour(whole, i));
    });
    tip.again();
  };
  const about = (i) => {
    const k = Math.round(at), mine = text.cluster[k][i], size = text.cluster[k].filter((one) => one === mine).length;
    const cluster = mine < 0 ? "alone" : `in a cluster of ${size} tokens`;
    return [`token ${i + 1} of ${text.tokens.length}, ${cluster}`, `norm ${text.norm[k][i] ?? "not finite"}`]
      .map((line) => [colour(k, i), line]);
  };
  const pick = (i) => {
    if (i === picked) return;
    picked = i;
    area.classList.toggle("picked", i >= 0);
    for (const all of [dots, trails, tokens]) all.forEach((one, j) => one.classList.toggle("on", j === i));
    if (trails[i]) svg.append(trails[i]); // above the others
    draw(at);
  };
  const tipsNow = () => now.map((point, i) => [...(point ?? [-9, -9]), visible(text.tokens[i]), about(i)]);
  const tip = hover(area, tipsNow, pick);
  const change = () => {
    for (const one of [...area.querySelectorAll(".particle, .trail"), ...strip.childNodes]) one.remove();
    tip.hide();
    text = texts[Number(choice?.value ?? 0)];
    dots = text.tokens.map(() => make(area, "dot particle", ""));
    trails = text.tokens.map(() => svg.appendChild(document.createElementNS(svg.namespaceURI, "path")));
    trails.forEach((one) => one.classList.add("trail"));
    tokens = text.tokens.map((token) => make(strip, "token", visible(token)));
    tokens.forEach((one, i) => {
      one.addEventListener("pointerenter", () => tip.show(i));
      one.addEventListener("pointerleave", tip.hide);
    });
  };
  change();
  const again = player(root, where, draw);
  choice?.addEventListener("change", () => { change(); again(); });
  by.addEventListener("change", () => {
    for (const one of ["cluster", "norm"]) root.querySelector(`.by-${one}`).hidden = by.value !== one;
    again();
  });
  const [left, right, low, high] = ends;
  const row = (one, k, i) => {
    const point = exact(k, i) ?? [null, null];
    return [one.name, ...states[k], i, one.tokens[i], point[0] === null ? null : back(point[0], left, right),
      point[1] === null ? null : back(1 - point[1], low, high), one.cluster[k][i], one.norm[k][i]];
  };
  rowsOf.set(root, () => {
    const kept = text, rows = [];
    for (text of texts) states.forEach((_, k) => text.tokens.forEach((_, i) => rows.push(row(text, k, i))));
    text = kept;
    return { columns, rows };
  });
}

// The figures of a chart as a file.
const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
const csv = ({ columns, rows }) =>
  [columns, ...rows].map((row) => row.map((value) => quoted(String(value ?? ""))).join(",")).join("\r\n") + "\r\n";
for (const button of document.querySelectorAll(".download")) {
  const root = button.closest(".explained"), inside = root.querySelector("[data-particles], [data-slider]");
  const found = () => (root.dataset.figures ? JSON.parse(root.dataset.figures) : rowsOf.get(inside)());
  button.hidden = false;
  button.addEventListener("click", () => {
    const json = button.dataset.file.endsWith(".json");
    const blob = new Blob([json ? JSON.stringify(found()) : csv(found())], { type: json ? "application/json" : "text/csv" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = button.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

// What is folded: a button opens all of it, a link opens where it leads, and paper shows everything.
const folded = [...document.querySelectorAll("details")];
if (folded.length) {
  const unfold = (open) => folded.forEach((one) => { one.open = open; });
  const all = document.createElement("button");
  all.className = "all";
  all.type = "button";
  all.textContent = "Open all evidence";
  all.addEventListener("click", () => {
    unfold(all.textContent.startsWith("Open"));
    all.textContent = folded[0].open ? "Close all evidence" : "Open all evidence";
  });
  folded[0].before(all);
  const follow = () => {
    for (let one = document.getElementById(location.hash.slice(1)); one; one = one.parentElement) {
      if (one.matches("details")) one.open = true;
    }
  };
  addEventListener("hashchange", follow);
  follow();
  let before = [];
  addEventListener("beforeprint", () => { before = folded.map((one) => one.open); unfold(true); });
  addEventListener("afterprint", () => folded.forEach((one, i) => { one.open = before[i]; }));
}
