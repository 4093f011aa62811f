"""The shell of a page: one HTML file with its style and scripts inside, which asks the network for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
:root { color-scheme: light; --ink: #1d2433; --soft: #5b6475; --line: #dfe3ea; --tint: #f6f7f9; --accent: #2457a8; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff; overflow-wrap: anywhere; -webkit-text-size-adjust: 100%;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .6rem; }
p { margin: .4rem 0 .9rem; max-width: 46rem; }
.soft { color: var(--soft); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .5rem .65rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; background: var(--tint); font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
td small { white-space: nowrap; }
td small, th small { display: block; color: var(--soft); font-size: .8rem; font-weight: 400; }
tbody th { font-weight: 600; }
tbody th small { white-space: normal; max-width: 22rem; }
code, pre { font: .86rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem;
  margin: .4rem 0 1rem; white-space: pre-wrap; }
.plot { width: 100%; min-width: 0; overflow: hidden; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; }
.pair > * { min-width: 0; }
.row { display: flex; flex-wrap: wrap; align-items: flex-start; gap: 1rem; }
figure { margin: 0; max-width: 100%; padding: .8rem 1rem; border: 1px solid var(--line); border-radius: 8px;
  overflow-x: auto; }
figcaption { font-size: .92rem; margin-bottom: .5rem; position: sticky; left: 0; }
figcaption code { color: var(--soft); }
figure svg { display: block; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.25rem; margin: .4rem 0 1rem;
  font-size: .92rem; }
dt { color: var(--soft); }
dd { margin: 0; min-width: 0; }
@media (max-width: 800px) { .pair { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 600px) {
  main { padding: 1.25rem .9rem 3rem; }
  h1 { font-size: 1.35rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; }
  .stack { border: 0; }
  .stack thead { display: none; }
  .stack table, .stack tbody, .stack tr, .stack th, .stack td { display: block; }
  .stack tr { border: 1px solid var(--line); border-radius: 8px; margin-bottom: .8rem; padding: .3rem 0; }
  .stack th, .stack td { border: 0; padding: .3rem .8rem; white-space: normal; }
  .stack td { display: flex; justify-content: space-between; gap: 1rem; text-align: right; }
  .stack td::before { content: attr(data-head); color: var(--soft); text-align: left; }
  .stack td:empty { display: none; }
}
@media print { .scroll, figure { overflow: visible; } }
"""


class MissingPackage(ValueError):
    """A package that only pages need is not installed."""


def page(title: str, body: Iterable[str], scripts: Sequence[str] = ()) -> str:
    """A whole page. `title` is text; body and scripts are HTML and JavaScript, escaped by those who made them."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>",
            *(f"<script>{script}</script>" for script in scripts),
            "</head>\n<body>\n<main>",
            *body,
            "</main>\n</body>\n</html>\n",
        ]
    )


def cell(text: str) -> str:
    """Text as HTML; what follows its first line is set small."""
    first, *rest = text.split("\n")
    return escape(first) + "".join(f"<small>{escape(line)}</small>" for line in rest)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], stacked: bool = True) -> str:
    """A table of texts; the first column names the row. On a phone each row becomes a card, else the table scrolls."""
    top = "".join(f'<th scope="col">{cell(head)}</th>' for head in heads)
    names = [escape(head.replace("\n(", " (").replace("\n", ", ")) for head in heads[1:]]
    lines = []
    for first, *rest in rows:
        cells = [
            f'<td data-head="{name}"><span>{cell(text)}</span></td>' if text else "<td></td>"
            for name, text in zip(names, rest, strict=True)
        ]
        lines.append(f'<tr><th scope="row">{cell(first)}</th>{"".join(cells)}</tr>')
    kind, inner = "scroll stack" if stacked else "scroll", f"<tbody>{''.join(lines)}</tbody>"
    return f'<div class="{kind}"><table><thead><tr>{top}</tr></thead>{inner}</table></div>'


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in rows)}</dl>"
