"""The text of Wikipedia articles in a dump such as enwik8, without markup: python -m splitstep.text.wiki_text
DUMP OUT.jsonl writes one article a line. `RULES` is all that is done to an article, in this order."""

import html
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ..support.files import whole_file
from .documents import lines_of

TITLE, TEXT, END = re.compile("<title>(.*)</title>"), re.compile("<text[^>]*>(.*)", re.S), "</text>"
NAMESPACE = re.compile("(Wikipedia|MediaWiki|Template|Category|Image|Help|Portal|User|Talk|Special)( talk)?:", re.I)
SHORTEST = 64  # characters; shorter articles are left out, and so are redirects

LINK = r"\[\[([^\[\]]*)\]\]"
ELSEWHERE = re.compile("(image|file|media|category|[a-z]{2,3}|[a-z]+-[a-z-]+|simple):", re.I)


def link_text(found: re.Match[str]) -> str:
    """What a link shows; nothing for images, categories and links to other languages."""
    target, _, shown = found[1].partition("|")
    return "" if ELSEWHERE.match(target) else shown or target


INNERMOST = 12  # how often a rule for what may be nested is applied, from the inside out
RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str], int], ...] = (
    (r"<!--.*?-->", "", 1),
    (r"<ref[^>]*/>|<(ref|math|gallery|table|timeline|pre|source|div)\b[^>]*>.*?</\1>", "", 1),
    (r"</?[a-zA-Z][^<>]*>", "", 1),  # other tags, not what is between them
    (r"\{\{[^{}]*\}\}", "", INNERMOST),  # templates
    (r"\{\|.*?\n\|\}", "", 1),  # tables
    (LINK, link_text, INNERMOST),
    (r"\[(?:https?|ftp|mailto)[^\s\]]*\s*([^\]]*)\]", r"\1", 1),
    (r"(?:https?|ftp)://\S+", "", 1),
    (r"'{2,}|__[A-Z]+__", "", 1),
    (r"(?m)^=+\s*(.*?)\s*=+\s*$", r"\1", 1),  # headings
    (r"(?m)^[*#:;]+\s*|^-{4,}", "", 1),  # lists, lines
    (r"(?m)^[|!{}].*$", "", 1),  # what is left of tables
    (r"\(\s*[,;]?\s*\)", "", 1),  # brackets that held nothing but markup
    (r"[^\S\n]+", " ", 1),
    (r"(?m)^ | $", "", 1),
    (r"\n{3,}", "\n\n", 1),
)  # fmt: skip


COMPILED = [(re.compile(pattern, re.S), new, times) for pattern, new, times in RULES]


def clean(markup: str) -> str:
    """The text of an article, from its markup as the dump has it."""
    text = html.unescape(html.unescape(markup))  # the dump escapes what articles have escaped
    for pattern, new, times in COMPILED:
        for _ in range(times):
            text, changes = pattern.subn(new, text)
            if not changes:
                break
    return text.strip()


def articles(dump: Path) -> Iterator[tuple[str, str]]:
    """Title and markup of each page that is an article; one that the dump cuts off is left out."""
    title, lines = "", None
    for line in lines_of(dump):
        if lines is None:
            if found := TITLE.search(line):
                title = html.unescape(found[1])
            if not (found := TEXT.search(line)):
                continue
            lines, line = [], found[1]
        before, end, _ = line.partition(END)
        lines.append(before)
        if end:
            markup, lines = "".join(lines), None
            if not NAMESPACE.match(title) and not markup.lstrip().lower().startswith("#redirect"):
                yield title, markup


def main(dump: Path, out: Path) -> None:
    """Write the articles as JSON lines."""
    count = characters = 0
    with whole_file(out) as file:
        for title, markup in articles(dump):
            if len(text := clean(markup)) < SHORTEST:
                continue
            file.write(json.dumps({"title": title, "text": text}, ensure_ascii=False).encode() + b"\n")
            count, characters = count + 1, characters + len(text)
    print(f"{out}: {count:,} articles, {characters:,} characters")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
