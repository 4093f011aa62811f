"""The frame of a page, one HTML file with its style and its script inside, which loads nothing; and its words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from .document import Heading, Note, Verbatim, Verdict

STYLE, SCRIPT = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("style.css", "hover.js"))


def page(title: str, body: Iterable[str]) -> str:
    """A whole page. `title` is text; the body is HTML, escaped already."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>",
            "</head>\n<body>\n<main>",
            *body,
            f"</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def side_by_side(parts: Sequence[str]) -> str:
    """Parts beside each other if there is room; a single one takes the whole width."""
    return parts[0] if len(parts) == 1 else f'<div class="pair">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """A list of names and values."""
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in rows)}</dl>"


def words_to_html(part: Verdict | Heading | Note | Verbatim) -> str:
    """A part that is text."""
    match part:
        case Verdict(kind, sentence):
            return f'<p class="verdict {kind.replace(" ", "-")}">{escape(sentence)}</p>'
        case Heading(text, level):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Note(text, plain):
            return f"<p>{escape(text)}</p>" if plain else f'<p class="soft">{escape(text)}</p>'
        case Verbatim(text, answer):
            kind = ' class="answer" tabindex="0"' if answer else ""
            return f"<pre{kind}>{escape(text)}</pre>"
