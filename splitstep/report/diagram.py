"""A scheme as a picture: one step from left to right, a box per field, inline SVG."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from ..letters import LETTERS
from ..scheme import Part, Program, Project, Scheme, Substep
from ..tableau import EULER, Coefficient

GREY, INK, SOFT, RED, WHITE = "#8a93a3", "#1d2433", "#5b6475", "#b3261e", "#ffffff"
BOX, HEIGHT, GAP = 54, 30, 30  # a box, and the stream between boxes
MARGIN = 34  # left and right of the boxes: where the state comes in and goes out


class Drawing(NamedTuple):
    """Pieces of SVG and how much room they take."""

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


def rows(scheme: Scheme) -> Drawing:
    """Each program on a stream of its own; several part at the left and meet at the right with their weights."""
    several = len(scheme.branches) > 1
    inset = 2.2 * MARGIN if several else MARGIN
    longest = max(length(program) for _, program in scheme.branches)
    heights = [room(program) for _, program in scheme.branches]
    width, height = longest + 2 * inset, sum(heights)
    middle = height / 2 if several else above(scheme.branches[0][1])
    pieces: list[str] = []
    top = 0.0
    for (weight, program), (_, moves), tall in zip(scheme.branches, scheme.plan, heights, strict=True):
        y = top + above(program)
        pieces += stream(inset - 14, y, width - inset + 14, y)
        if several:
            for x0, x1 in ((16, inset - 14), (width - 16, width - inset + 14)):
                pieces += stream(x0, middle, x1, y)
            pieces += text(width - inset + 4, y + (16 if y > middle else -8), number(weight), SOFT, "start")
        for x, part, move in zip(centres(program, inset), program, moves, strict=True):
            pieces += box(x, y, part, len(move.stages))
        top += tall
    if several:
        pieces += node(16, middle, "x") + node(width - 16, middle, "\u03a3")
    else:
        pieces += node(14, middle, "x") + arrow(width - MARGIN + 14, middle, width - 4, middle)
    return Drawing(width, height, pieces)


def doubled(scheme: Scheme) -> Drawing:
    """Two lanes for each program; a part stands on the lane that it moves and reads the other one."""
    pieces: list[str] = []
    width = max(length(program) for _, program in scheme.branches) + 2 * MARGIN
    top = 0.0
    for (weight, program), (_, moves) in zip(scheme.branches, scheme.plan, strict=True):
        lanes = {"a": top + above(program), "b": top + above(program) + room(program)}
        for name, y in lanes.items():
            pieces += stream(14, y, width - MARGIN + 14, y) + node(14, y, name)
            pieces += arrow(width - MARGIN + 14, y, width - 4, y)
        for x, part, move in zip(centres(program, MARGIN), program, moves, strict=True):
            assert isinstance(part, Substep)
            y, other = lanes[part.half], lanes["b" if part.half == "a" else "a"]
            edge = stack_height(part) / 2
            pieces += arrow(x - BOX / 4, other, x - BOX / 4, y + (edge if other > y else -edge), SOFT, dashed=True)
            pieces += box(x, y, part, len(move.stages))
        if len(scheme.branches) > 1:
            pieces += text(width - 6, lanes["a"] - 8, number(weight), SOFT, "end")
        top = lanes["b"] + below(program)
    return Drawing(width, top, pieces)


def centres(program: Program, left: float) -> list[float]:
    """The middle of each part's box."""
    return [left + GAP / 2 + BOX / 2 + i * (BOX + GAP) for i in range(len(program))]


def length(program: Program) -> float:
    return len(program) * (BOX + GAP)


def fields(part: Part) -> tuple[str, ...]:
    return (part.field,) if isinstance(part, Project) else part.fields


def tallest(program: Program) -> int:
    return max(len(fields(part)) for part in program)


def stack_height(part: Part) -> float:
    return HEIGHT * len(fields(part))


def above(program: Program) -> float:
    """Room over the stream: half the tallest box, and what stands over boxes."""
    staged = any(isinstance(part, Substep) and part.tableau != EULER for part in program)
    return HEIGHT * tallest(program) / 2 + (28 if staged else 8)


def below(program: Program) -> float:
    divided = any(isinstance(part, Substep) and part.fraction != 1 for part in program)
    return HEIGHT * tallest(program) / 2 + (26 if divided else 10)


def room(program: Program) -> float:
    return above(program) + below(program)


def box(x: float, y: float, part: Part, stages: int) -> list[str]:
    """A part: a box per field, its fraction below, its stages above."""
    top = y - stack_height(part) / 2
    hollow = isinstance(part, Project) or part.replaces
    dashes = ' stroke-dasharray="4 3"' if isinstance(part, Project) else ""
    pieces: list[str] = []
    for i, name in enumerate(fields(part)):
        colour = LETTERS[name[0]].colour if name[0] in LETTERS else GREY  # projections and unknown letters
        fill, ink = (WHITE, colour) if hollow else (colour, WHITE)
        pieces.append(
            f'<rect x="{x - BOX / 2:g}" y="{top + i * HEIGHT:g}" width="{BOX}" height="{HEIGHT}" rx="5" fill="{fill}" '
            f'stroke="{ink}" stroke-width="1.5"{dashes}/>'
        )
        words = f"={name}" if isinstance(part, Substep) and part.replaces else name
        pieces += text(x, top + i * HEIGHT + 20, words, ink, size=14, bold=True)
    if isinstance(part, Substep):
        pieces += around(x, top, y + stack_height(part) / 2, part, stages)
    return pieces


def around(x: float, top: float, bottom: float, part: Substep, stages: int) -> list[str]:
    """What stands by a box: its fraction and its stages."""
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
    halo = "" if colour == WHITE else f' stroke="{WHITE}" stroke-width="3" paint-order="stroke"'
    look = f'text-anchor="{anchor}" fill="{colour}" font-size="{size}"{weight}{halo}'
    return [f'<text x="{x:g}" y="{y:g}" {look}>{escape(words)}</text>']


def stream(x0: float, y0: float, x1: float, y1: float) -> list[str]:
    return [f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="{INK}" stroke-width="1.6"/>']


def arrow(x0: float, y0: float, x1: float, y1: float, colour: str = INK, dashed: bool = False) -> list[str]:
    """A line with a head at its end; horizontal or vertical."""
    along, across = (6, 4) if x1 >= x0 else (-6, 4)
    if x0 == x1:
        down = 6 if y1 > y0 else -6
        head = f"{x1 - 4:g},{y1 - down:g} {x1:g},{y1:g} {x1 + 4:g},{y1 - down:g}"
    else:
        head = f"{x1 - along:g},{y1 - across:g} {x1:g},{y1:g} {x1 - along:g},{y1 + across:g}"
    dash = ' stroke-dasharray="3 3"' if dashed else ""
    return [
        f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="{colour}" stroke-width="1.4"{dash}/>',
        f'<polygon points="{head}" fill="{colour}"/>',
    ]


def node(x: float, y: float, name: str) -> list[str]:
    return [
        f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="{WHITE}" stroke="{INK}" stroke-width="1.4"/>',
        *text(x, y + 4, name, INK, "middle", 12),
    ]
