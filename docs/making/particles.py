"""README's picture: the tokens of one text move through a pretrained model, with the model's scheme beside them.

    python docs/making/particles.py results/inspect/smollm2 --out docs/particles.svg

One SVG without a script: CSS moves the particles, so they move on GitHub, too. Readers who ask for less motion see the
last layer.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from splitstep import scheme
from splitstep.experiments.study import STUDIES
from splitstep.report.diagram import rows

WIDTH, HEIGHT, SIDE = 930, 440, 286  # of the picture, and of the column with the scheme
FIELD = (26.0, 84.0, WIDTH - SIDE - 70.0, HEIGHT - 118.0)  # left, top, width and height of the particles' field
SECONDS, MOVING = 18, 88.0  # a round, and the percentage of it in which the particles move
WORDS = {" the": 0, " ferry": 1, " bridge": 2, "The": 4}  # words with a colour of their own
LIGHT = ("#2f6db5", "#c8641b", "#2a8a57", "#7a4fb0", "#b3261e")  # as pages have them
DARK = ("#6aa5ea", "#ef9a57", "#57c489", "#b08ce6", "#f0786f")
TEXT, THIN = 'fill="var(--ink)"', 'fill="var(--soft)" font-size="13"'
SAID = (  # below the drawing of the scheme: size, top and words
    (15, 180, '<tspan font-weight="700">A</tspan> attention: tokens interact'),
    (15, 202, '<tspan font-weight="700">F</tspan> feed-forward: each moves alone'),
    (18, 244, '<tspan font-style="italic">dx/dt = A(x) + F(x)</tspan>'),
    (13, 268, "Lie-Trotter splitting with Euler steps:"),
    (13, 286, "the plain Transformer, of order 1"),
)


class Moving(NamedTuple):
    """A token and its place in the picture, state by state."""

    token: str
    at: list[tuple[int, int]]

    @property
    def colour(self) -> str:
        return f"var(--c{WORDS[self.token]})" if self.token in WORDS else "var(--soft)"


def particles(path: Any) -> list[Moving]:
    """The tokens of one text, in a field that has room for all their states."""
    xs, ys = ([value for row in axis for value in row] for axis in (path.x, path.y))
    left, top, width, height = FIELD

    def placed(x: float, y: float) -> tuple[int, int]:
        across, up = ((v - min(every)) / (max(every) - min(every)) for v, every in ((x, xs), (y, ys)))
        return round(left + width * across), round(top + height * (1 - up))

    return [
        Moving(token, [placed(x[i], y[i]) for x, y in zip(path.x, path.y, strict=True)])
        for i, token in enumerate(path.tokens)
    ]


def instants(states: int) -> list[str]:
    """When each state is reached, in percent of a round."""
    return [f"{MOVING * i / (states - 1):.3g}%" for i in range(states)]


def motion(name: str, one: Moving) -> str:
    """The keyframes of a particle, which rests at its end."""
    frames = [f"{when}{{{placed(at)}}}" for when, at in zip(instants(len(one.at)), one.at, strict=True)]
    return f"@keyframes {name}{{{''.join(frames)}100%{{{placed(one.at[-1])}}}}}"


def placed(at: tuple[int, int]) -> str:
    return f"transform:translate({at[0]}px,{at[1]}px)"


def drawn(i: int, one: Moving) -> str:
    """A particle at its end, where it stays without motion."""
    radius = 6.5 if one.token in WORDS else 4
    return f'<circle class="a" r="{radius}" fill="{one.colour}" style="{placed(one.at[-1])};animation-name:p{i}"/>'


def trail(one: Moving) -> str:
    """The way of a particle, fainter if its word has no colour."""
    places = "L".join(f"{x} {y}" for x, y in one.at)
    return f'<path d="M{places}" fill="none" stroke="{one.colour}" opacity="{0.4 if one.token in WORDS else 0.1}"/>'


def key(tokens: Sequence[str]) -> Iterator[str]:
    """The words with colours, and how often each is there."""
    left = FIELD[0]
    for word, shade in WORDS.items():
        text = "The, the first token" if word == "The" else f"{word.strip()} \u00d7 {tokens.count(word)}"
        yield f'<circle cx="{left + 5}" cy="62" r="6" fill="var(--c{shade})"/>'
        yield f'<text x="{left + 17}" y="67" font-size="14" {TEXT}>{text}</text>'
        left += 40 + 8.2 * len(text)


def depth(layers: int) -> Iterator[str]:
    """The column's counter of layers, and the bar that fills with depth."""
    left, top, width = WIDTH - SIDE, 330, SIDE - 30
    places = [f"transform:translateY({-24 * i}px)" for i in range(layers + 1)]
    turns = "".join(f"{when}{{{place}}}" for when, place in zip(instants(layers + 1), places, strict=True))
    numbers = "".join(f'<text y="{24 * i + 19}">layer {i} of {layers}</text>' for i in range(layers + 1))
    bar = f'x="{left}" y="{top + 34}" width="{width}" height="8" rx="4"'
    yield f"<style>@keyframes count{{{turns}100%{{{places[-1]}}}}}"
    yield f"@keyframes fill{{0%{{transform:scaleX(0)}}{MOVING:g}%,100%{{transform:none}}}}</style>"
    yield f'<svg x="{left}" y="{top}" width="{width}" height="24" font-size="17" {TEXT}>'
    steps = "animation-name:count;animation-timing-function:step-end"
    yield f'<g class="a" style="{steps};{places[-1]}">{numbers}</g></svg>'
    yield f'<rect {bar} fill="var(--line)"/>'
    yield f'<rect {bar} fill="var(--c0)" class="a" style="animation-name:fill;transform-origin:{left}px"/>'
    yield f'<text x="{left}" y="{top + 66}" {THIN}>Depth is time.</text>'


def beside(notation: str) -> Iterator[str]:
    """The scheme: one step as a drawing, and what it says."""
    left, drawing = WIDTH - SIDE, rows(scheme(notation))
    head = f"Each layer is one step of {escape(notation)}"
    yield f'<text x="{left}" y="78" font-size="16" font-weight="600" {TEXT}>{head}</text>'
    yield f'<g transform="translate({left - 4} 92)">{"".join(drawing.pieces)}</g>'
    for size, top, words in SAID:
        yield f'<text x="{left}" y="{top}" font-size="{size}" {TEXT}>{words}</text>'


def style(moving: Sequence[Moving]) -> str:
    """Colours of both themes, and the motion."""
    themes = [
        f"--ink:{ink};--soft:{soft};--line:{line};--page:{page};"
        + "".join(f"--c{i}:{one};" for i, one in enumerate(colours))
        for ink, soft, line, page, colours in (
            ("#1d2433", "#5b6475", "#dfe3ea", "#ffffff", LIGHT),
            ("#e6e9ef", "#a2abbb", "#2f3745", "#12161e", DARK),
        )
    ]
    frames = "".join(motion(f"p{i}", one) for i, one in enumerate(moving))
    return (
        f"<style>:root{{{themes[0]}}}@media (prefers-color-scheme: dark){{:root{{{themes[1]}}}}}"
        f".a{{animation:{SECONDS}s linear infinite}}"
        f"@media (prefers-reduced-motion: reduce){{.a{{animation:none}}}}{frames}</style>"
    )


def picture(found: Any, text: int = 0) -> str:
    """The whole picture of one text of an inspection."""
    model, path = found.model, found.model.paths[text]
    moving = sorted(particles(path), key=lambda one: one.token in WORDS)  # coloured particles lie on top
    name = model.model.split("-Instruct")[0]
    title = f"{len(moving)} tokens of a text move through the {model.layers} layers of {name}"
    return "".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="system-ui, sans-serif">{style(moving)}',
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10" fill="var(--page)" '
        'stroke="var(--line)"/>',
        f'<text x="26" y="38" font-size="19" font-weight="600" {TEXT}>{title}</text>', *key(path.tokens),
        *map(trail, moving), *(drawn(i, one) for i, one in enumerate(moving)),
        f'<text x="26" y="{HEIGHT - 12}" {THIN}>The plane of the two leading principal directions. '
        "Equal words start at one place; attention moves them apart.</text>",
        *beside(model.scheme), *depth(model.layers), "</svg>\n",
    ))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = STUDIES["inspect"].read(json.loads((given.folder / "result.json").read_text()), str(given.folder))
    given.out.write_text(picture(found))


if __name__ == "__main__":
    main()
