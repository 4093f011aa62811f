"""What every page must keep in a browser: legible text, names for what has no words, nothing beyond the screen."""

from typing import Any

CONTRAST, LARGE = 4.5, 3.0  # WCAG's AA, of text and of large text

FAULTS = """([contrast, large]) => {
  const faults = new Set();
  const parse = (colour) => (colour.match(/[\\d.]+(e-?\\d+)?/g) || [0, 0, 0, 0]).map(Number);
  const over = (top, below) => {
    const a = top[3] ?? 1;
    return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a));
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(parse(getComputedStyle(one).backgroundColor));
    const scheme = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    return layers.reverse().reduce((below, top) => over(top, below), scheme);
  };
  const said = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") || ""}">`;
  const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const drawn = (element) => [...element.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());

  const below = (text) => {
    const box = text.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
    const shapes = [...text.ownerSVGElement.querySelectorAll("rect, circle, ellipse")].filter((one) => {
      const { left, right, top, bottom } = one.getBoundingClientRect(), before = one.compareDocumentPosition(text) & 4;
      return before && left <= x && x <= right && top <= y && y <= bottom && getComputedStyle(one).fill !== "none";
    });
    return shapes.reduce((under, one) => over(parse(getComputedStyle(one).fill), under), paper(text.ownerSVGElement));
  };

  for (const element of document.querySelectorAll("body *")) {
    const style = getComputedStyle(element), svg = element.closest("svg") !== null;
    if (!drawn(element) || !seen(element) || element.closest("script, style, title")) continue;
    if (element.matches(":disabled") || style.clipPath !== "none") continue;
    if (element.getBoundingClientRect().width < 2) continue;
    const behind = svg ? below(element) : paper(element), ink = over(parse(svg ? style.fill : style.color), behind);
    const [low, high] = [light(behind), light(ink)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05), size = parseFloat(style.fontSize);
    const big = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (big ? large : contrast)) {
      faults.add(`contrast ${ratio.toFixed(2)} of ${said(element)} "${element.textContent.trim().slice(0, 30)}"`);
    }
  }
  const name = (element) => [
    element.getAttribute("aria-label"), element.getAttribute("alt"), element.title, element.textContent.trim(),
    ...[...(element.labels || [])].map((label) => label.textContent.trim()),
    ...(element.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent),
    element.querySelector?.("img[alt], [aria-label], title")?.outerHTML,
  ].some(Boolean);
  for (const element of document.querySelectorAll("button, input, select, textarea, a[href], summary, [role=button]")) {
    if (!seen(element) || element.closest("[aria-hidden=true]") || name(element)) continue;
    faults.add(`no name: ${said(element)}`);
  }
  for (const element of document.querySelectorAll("img, svg, canvas, [role=img]")) {
    const outer = element.parentElement.closest("svg, [role=img], [aria-hidden=true], button, a, label, summary");
    const labelled = element.tagName === "svg" && element.parentElement.matches("span") && name(element.parentElement);
    if (!seen(element) || outer || labelled || element.getAttribute("aria-hidden") === "true") continue;
    if (element.tagName === "IMG" ? !element.hasAttribute("alt") : !name(element)) {
      faults.add(`no name: ${said(element)} in ${said(element.parentElement)}`);
    }
  }
  for (const image of document.images) {
    if (image.complete && !image.naturalWidth) faults.add(`no picture: ${image.src}`);
  }
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) faults.add(`${scrollWidth} px wide on a screen of ${clientWidth}`);
  return [...faults];
}"""

OUTSIDE = """selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
  .map(e => [e.className || e.tagName, e.getBoundingClientRect()])
  .filter(([_, r]) => r.right > innerWidth + 0.5 || r.left < -0.5).map(([n, _]) => n)"""


def outside(page: Any, selector: str) -> list[str]:
    """What is drawn beyond the screen, by its class or its tag."""
    return page.evaluate(OUTSIDE, selector)


def unfolded(page: Any) -> Any:
    """The page with all of its evidence open."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    return page


def faults(page: Any) -> list[str]:
    """What is wrong with an open page, one line each; what was folded is opened first."""
    return unfolded(page).evaluate(FAULTS, [CONTRAST, LARGE])
