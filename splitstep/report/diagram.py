"""A scheme as a picture: one step from left to right, a box per field, inline SVG."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from ..letters import LETTERS
from ..notation import shortened
from ..scheme import Part, Program, Project, Scheme, Substep
from ..tableau import EULER, Coefficient

GREY, WHITE = "#6d7585", "#ffffff"
INK, SOFT, RED, PAPER = (  # as the page's style has them, else as on white paper
    f"var(--{name}, {colour})"
    for name, colour in (("ink", "#1d2433"), ("soft", "#5b6475"), ("c4", "#b3261e"), ("page", "#ffffff"))
)
BOX, HEIGHT, GAP = 54, 30, 30  # a box, and the stream between boxes
MARGIN = 34  # left and right of the boxes, where the state enters and leaves


class Drawing(NamedTuple):
    """Pieces of SVG and their size."""

    width: float
    height: float
    pieces: list[str]


def draw(scheme: Scheme) -> str:
    """One step of the scheme. Averaged programs are parallel rows; a doubled state (a, b) has two lanes."""
    drawing = doubled(scheme) if scheme.doubled else rows(scheme)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="One step of {escape(str(scheme))}" '
        f'width="{drawing.width:g}" height="{drawing.height:g}" viewBox="0 0 {drawing.width:g} {drawing.height:g}" '
        f'font-family="system-ui, sans-serif" font-size="13">{"".join(drawing.pieces)}</svg>'
    )


def diagrams(schemes: Iterable[tuple[str, Scheme]]) -> str:
    """Schemes beside each other, each below its name and with its notation, evaluations and order."""
    figures = []
    for name, scheme in schemes:
        order = "no order" if scheme.order is None else f"order {scheme.order}"
        notation = "" if name == str(scheme) else f"<code>{escape(shortened(str(scheme)))}</code> "
        caption = (
            f"<b>{escape(shortened(name))}</b> {notation}&middot; {scheme.evaluations} evaluations per step, {order}"
        )
        figures.append(f"<figure><figcaption>{caption}</figcaption>{draw(scheme)}</figure>")
    return f'<div class="row">{"".join(figures)}</div>'


def picture(schemes: Sequence[tuple[str, Scheme]]) -> str:
    """Schemes one below the other with their names, as a file of its own that follows the reader's colours."""
    pieces, top, widest = list[str](), 0.0, 0.0
    for name, scheme in schemes:
        drawing = doubled(scheme) if scheme.doubled else rows(scheme)
        words = name if name == str(scheme) else f"{name}: {shortened(str(scheme))}"
        pieces += text(4, top + 20, words, INK, "start", 15, bold=True)
        pieces.append(f'<g transform="translate(0 {top + 30:g})">{"".join(drawing.pieces)}</g>')
        top, widest = top + drawing.height + 44, max(widest, drawing.width, 9.0 * len(words))
    dark = ":root{--ink:#e6e9ef;--soft:#a2abbb;--c4:#f0786f;--page:#12161e}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {widest + 8:g} {top:g}" width="{widest + 8:g}" '
        f'height="{top:g}" font-family="system-ui, sans-serif" font-size="13">'
        f"<style>@media (prefers-color-scheme: dark){{{dark}}}</style>"
        f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>{"".join(pieces)}</svg>\n'
    )


def in_notebook(schemes: Sequence[tuple[str, Scheme]]) -> str:
    """The picture as an image, whose style touches nothing else, with the notations as its text."""
    data = b64encode(picture(schemes).encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="One step of {escape(", ".join(n for n, _ in schemes))}">'


def rows(scheme: Scheme) -> Drawing:
    """Each program on a stream of its own; several fork at the left and join at the right with their weights."""
    several = len(scheme.branches) > 1
    inset = 2.2 * MARGIN if several else MARGIN
    extents = [extent(program) for _, program in scheme.branches]
    width, height = max(one.length for one in extents) + 2 * inset, sum(one.above + one.below for one in extents)
    middle = height / 2 if several else extents[0].above
    pieces: list[str] = []
    top = 0.0
    for (weight, program), (_, moves), room in zip(scheme.branches, scheme.plan, extents, strict=True):
        y = top + room.above
        pieces += stream(inset - 14, y, width - inset + 14, y)
        if several:
            for x0, x1 in ((16, inset - 14), (width - 16, width - inset + 14)):
                pieces += stream(x0, middle, x1, y)
            pieces += text(width - inset + 4, y + (16 if y > middle else -8), number(weight), SOFT, "start")
        for x, part, move in zip(centres(program, inset), program, moves, strict=True):
            pieces += box(x, y, part, len(move.stages))
        top = y + room.below
    if several:
        pieces += node(16, middle, "x") + node(width - 16, middle, "\u03a3")
    else:
        pieces += node(14, middle, "x") + arrow(width - MARGIN + 14, middle, width - 4, middle)
    return Drawing(width, height, pieces)


def doubled(scheme: Scheme) -> Drawing:
    """Two lanes for each program; a box is on the lane that it moves, with an arrow from the lane that it reads."""
    pieces: list[str] = []
    extents = [extent(program) for _, program in scheme.branches]
    width, top = max(one.length for one in extents) + 2 * MARGIN, 0.0
    for (weight, program), (_, moves), room in zip(scheme.branches, scheme.plan, extents, strict=True):
        lanes = {"a": top + room.above, "b": top + 2 * room.above + room.below}
        for name, y in lanes.items():
            pieces += stream(14, y, width - MARGIN + 14, y) + node(14, y, name)
            pieces += arrow(width - MARGIN + 14, y, width - 4, y)
        for x, part, move in zip(centres(program, MARGIN), program, moves, strict=True):
            assert isinstance(part, Substep)
            y, other = lanes[part.half], lanes["b" if part.half == "a" else "a"]
            edge = box_height(part) / 2
            pieces += arrow(x - BOX / 4, other, x - BOX / 4, y + (edge if other > y else -edge), SOFT, dashed=True)
            pieces += box(x, y, part, len(move.stages))
        if len(scheme.branches) > 1:
            pieces += text(width - 6, lanes["a"] - 8, number(weight), SOFT, "end")
        top = lanes["b"] + room.below
    return Drawing(width, top, pieces)


class Extent(NamedTuple):
    """The room that a program takes along its stream, above it and below it."""

    length: float
    above: float
    below: float


def extent(program: Program) -> Extent:
    """Boxes and gaps along the stream; half the tallest box on either side, stages above and fractions below."""
    half, parts = max(map(box_height, program)) / 2, [part for part in program if isinstance(part, Substep)]
    staged, divided = any(part.tableau != EULER for part in parts), any(part.fraction != 1 for part in parts)
    return Extent(len(program) * (BOX + GAP), half + (28 if staged else 8), half + (26 if divided else 10))


def centres(program: Program, left: float) -> list[float]:
    """The middle of each part's box."""
    return [left + GAP / 2 + BOX / 2 + i * (BOX + GAP) for i in range(len(program))]


def fields(part: Part) -> tuple[str, ...]:
    return (part.field,) if isinstance(part, Project) else part.fields


def box_height(part: Part) -> float:
    return HEIGHT * len(fields(part))


def box(x: float, y: float, part: Part, stages: int) -> list[str]:
    """A part: a box per field, its fraction below, its stages above."""
    top = y - box_height(part) / 2
    hollow = isinstance(part, Project) or part.replaces
    dashes = ' stroke-dasharray="4 3"' if isinstance(part, Project) else ""
    pieces: list[str] = []
    for i, name in enumerate(fields(part)):
        colour = LETTERS[name[0]].colour if name[0] in LETTERS else GREY  # projections and unknown letters
        fill, ink = (PAPER, INK) if hollow else (colour, WHITE)
        pieces.append(
            f'<rect x="{x - BOX / 2:g}" y="{top + i * HEIGHT:g}" width="{BOX}" height="{HEIGHT}" rx="5" fill="{fill}" '
            f'stroke="{colour}" stroke-width="1.5"{dashes}/>'
        )
        words = f"={name}" if isinstance(part, Substep) and part.replaces else name
        pieces += text(x, top + i * HEIGHT + 20, words, ink, size=14, bold=True)
    if isinstance(part, Substep):
        pieces += around(x, top, y + box_height(part) / 2, part, stages)
    return pieces


def around(x: float, top: float, bottom: float, part: Substep, stages: int) -> list[str]:
    """The fraction below a box and the stages above it."""
    pieces: list[str] = []
    if part.fraction != 1:
        pieces += text(x, bottom + 16, number(part.fraction), RED if part.fraction < 0 else INK)
    if part.tableau != EULER:
        pieces += text(x, top - 15, part.tableau.name, SOFT, size=11)
        for j in range(stages):
            pieces.append(f'<circle cx="{x + 9 * (j - (stages - 1) / 2):g}" cy="{top - 7:g}" r="2.6" fill="{SOFT}"/>')
    return pieces


def number(value: Coefficient) -> str:
    """A coefficient as people write it, long decimals cut."""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def text(
    x: float, y: float, words: str, colour: str = INK, anchor: str = "middle", size: int = 12, bold: bool = False
) -> list[str]:
    weight = ' font-weight="600"' if bold else ""
    halo = "" if colour == WHITE else f' stroke="{PAPER}" stroke-width="3" paint-order="stroke"'
    look = f'text-anchor="{anchor}" fill="{colour}" font-size="{size}"{weight}{halo}'
    return [f'<text x="{x:g}" y="{y:g}" {look}>{escape(words)}</text>']


def stream(x0: float, y0: float, x1: float, y1: float) -> list[str]:
    return [f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="{INK}" stroke-width="1.6"/>']


def arrow(x0: float, y0: float, x1: float, y1: float, colour: str = INK, dashed: bool = False) -> list[str]:
    """A line with a head at its end; to the right, up or down."""
    if x0 == x1:
        base = y1 - 6 if y1 > y0 else y1 + 6
        head = f"{x1 - 4:g},{base:g} {x1:g},{y1:g} {x1 + 4:g},{base:g}"
    else:
        head = f"{x1 - 6:g},{y1 - 4:g} {x1:g},{y1:g} {x1 - 6:g},{y1 + 4:g}"
    dash = ' stroke-dasharray="3 3"' if dashed else ""
    return [
        f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="{colour}" stroke-width="1.4"{dash}/>',
        f'<polygon points="{head}" fill="{colour}"/>',
    ]


def node(x: float, y: float, name: str) -> list[str]:
    return [
        f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="{PAPER}" stroke="{INK}" stroke-width="1.4"/>',
        *text(x, y + 4, name, INK, "middle", 12),
    ]
