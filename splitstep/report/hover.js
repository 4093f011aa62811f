// What is under the pointer: the tips of a chart are [x, y or null, head, [[colour, text], ...]], x and y in [0, 1].
"use strict";
for (const plot of document.querySelectorAll("[data-tips]")) {
  const tips = JSON.parse(plot.dataset.tips), area = plot.querySelector(".area");
  if (!tips.length) continue;
  const make = (parent, kind, text) => {
    const made = document.createElement(kind === "i" ? "i" : "div");
    made.className = kind;
    made.textContent = text;
    return parent.appendChild(made);
  };
  const cursor = make(area, "cursor", ""), box = make(area, "tip", "");
  const hide = () => { cursor.hidden = box.hidden = true; };
  const show = (x, y) => {
    const { width, height } = area.getBoundingClientRect();
    const far = ([tx, ty]) => ty === null ? Math.abs(tx * width - x) : Math.hypot(tx * width - x, ty * height - y);
    const nearest = tips.reduce((one, two) => (far(two) < far(one) ? two : one));
    const apart = ([tx, ty]) => Math.hypot((tx - nearest[0]) * width, ((ty ?? 0) - (nearest[1] ?? 0)) * height);
    const chosen = tips.filter((tip) => tip === nearest || (tip[1] !== null && apart(tip) < 6)); // points that overlap
    box.replaceChildren();
    for (const [, , head, lines] of chosen) {
      make(box, "head", head);
      for (const [colour, text] of lines) make(box, "line", text).style.setProperty("--c", `var(--c${colour})`);
    }
    cursor.hidden = chosen[0][1] !== null;
    box.hidden = false;
    cursor.style.left = `${chosen[0][0] * 100}%`;
    const left = chosen[0][0] * width, right = left + 14 + box.offsetWidth <= width;
    box.style.left = `${Math.max(0, Math.min(width - box.offsetWidth, right ? left + 14 : left - 14 - box.offsetWidth))}px`;
    box.style.top = `${chosen[0][1] === null ? 8 : Math.max(0, Math.min(height - box.offsetHeight, chosen[0][1] * height - box.offsetHeight / 2))}px`;
  };
  const follow = (event) => {
    const corner = area.getBoundingClientRect();
    show(event.clientX - corner.left, event.clientY - corner.top);
  };
  let at = -1; // of the tip that the arrow keys chose
  area.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") hide();
    if (!move) return;
    event.preventDefault();
    at = Math.max(0, Math.min(tips.length - 1, at + move));
    show(tips[at][0] * area.clientWidth, (tips[at][1] ?? 0) * area.clientHeight);
  });
  hide();
  area.tabIndex = 0;
  area.addEventListener("pointermove", follow);
  area.addEventListener("pointerdown", follow);
  area.addEventListener("pointerleave", hide);
  area.addEventListener("blur", hide);
}
