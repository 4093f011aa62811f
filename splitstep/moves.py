"""Parts of a scheme as `integrate` runs them: in plain floats, without the stages that nothing uses. No torch here."""

from __future__ import annotations

from typing import NamedTuple

from .scheme import Part, Project, Substep


class Stage(NamedTuple):
    """One evaluation of a part: its abscissa and the (earlier stage, coefficient) pairs of its state."""

    c: float
    row: tuple[tuple[int, float], ...]


class Move(NamedTuple):
    """A part as `integrate` runs it: in plain floats, without the stages that nothing uses."""

    fields: tuple[str, ...]
    colours: tuple[str, ...]
    fraction: float
    stages: tuple[Stage, ...]
    weights: tuple[float, ...]
    kind: str  # "add", "flow", "replace" or "project"
    half: int  # 0 or 1 in a doubled state, -1 otherwise


def lower(part: Part) -> Move:
    """The part in plain floats."""
    if isinstance(part, Project):
        return Move((part.field,), (), 0.0, (Stage(0.0, ()),), (1.0,), "project", -1)
    if part.exact:
        return Move(part.fields, part.colours, float(part.fraction), (Stage(0.0, ()),), (1.0,), "flow", -1)
    live = live_stages(part)
    number = {old: new for new, old in enumerate(live)}
    rows = [() if part.half else part.tableau.a[j] for j in live]
    stages = tuple(
        Stage(float(part.tableau.c[j]), tuple((number[i], float(a)) for i, a in enumerate(row) if a))
        for j, row in zip(live, rows, strict=True)
    )
    return Move(
        part.fields,
        part.colours,
        float(part.fraction),
        stages,
        tuple(float(part.tableau.b[j]) for j in live),
        "replace" if part.replaces else "add",
        "ab".index(part.half) if part.half else -1,
    )


def live_stages(part: Substep) -> tuple[int, ...]:
    """The stages that the result depends on. In a doubled state no stage depends on another, because the fields read
    the half that does not move: midpoint needs one evaluation there, not two."""
    live = {j for j, b in enumerate(part.tableau.b) if b}
    if not part.half:
        for j in reversed(range(len(part.tableau.b))):
            if j in live:
                live |= {i for i, a in enumerate(part.tableau.a[j]) if a}
    return tuple(sorted(live))
