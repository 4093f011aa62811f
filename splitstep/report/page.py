"""The frame of a page, one HTML file with its style and its script inside, which loads nothing; words and equations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from .document import Heading, Note, Verbatim, Verdict

STYLE, SCRIPT = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("style.css", "hover.js"))
LEVELS = {"_": "sub", "^": "sup"}
PIECE = re.compile(r"([_^])(?:\{|(.))|(\})|([A-Za-z]+)|([^_^}A-Za-z]+)", re.DOTALL)


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


def equation_to_html(text: str) -> str:
    """An equation whose single letters are variables; `_` lowers and `^` raises a letter or what is in braces."""
    written, closing = list[str](), list[str]()
    for level, letter, close, word, other in PIECE.findall(text):
        if level and letter:
            written.append(f"<{LEVELS[level]}>{symbol(letter)}</{LEVELS[level]}>")
        elif level:
            written.append(f"<{LEVELS[level]}>")
            closing.append(f"</{LEVELS[level]}>")
        elif close and closing:
            written.append(closing.pop())
        else:
            written.append(symbol(close or word or other))
    return "".join([*written, *reversed(closing)])


def symbol(text: str) -> str:
    """A variable if it is one letter; else a word, a number or a sign, with a minus as printers have it."""
    return f"<var>{text}</var>" if re.fullmatch("[A-Za-z]", text) else escape(text.replace("-", "\u2212"))
