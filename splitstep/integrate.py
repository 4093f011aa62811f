"""Run a scheme over a sequence of steps: the only loop over depth in the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .scheme import Move, Scheme

if TYPE_CHECKING:
    from torch import Tensor  # for types alone: importing it takes a second

Time: TypeAlias = "float | Tensor"
Field: TypeAlias = Callable[["Time", "Tensor", Any], "Tensor"]  # f(t, x, context) -> dx/dt
State = Any  # a Tensor, or a pair (a, b) of them where the scheme is doubled


class Step(NamedTuple):
    """One layer: its fields and projections by name, its start time and its length."""

    fields: Mapping[str, Field]
    t: Time
    h: float


class Site(NamedTuple):
    """The name of one evaluation: everything that must not depend on the order of calls derives from it."""

    step: int
    part: int
    stage: int
    branch: int


class Event(NamedTuple):
    """What a probe sees of one part: the state before and after it, and what each field added.

    x_after = x + sum of increments, unless the part replaces the state: then it is their sum. In a doubled state x is
    the half that moves.
    """

    site: Site
    move: Move
    t: Time
    h: float
    x: Tensor
    increments: Mapping[str, Tensor]
    x_after: Tensor
    context: Any


Observe = Callable[[Event], None]
At = Callable[[Any, Site], Any]


def scaled(c: float, x: Tensor) -> Tensor:
    return x if c == 1.0 else c * x


def total(terms: Iterable[Tensor]) -> Tensor:
    return reduce(add, terms)


def increments(
    step: Step, move: Move, site: Site, clock: Mapping[str, Time], x: Tensor, context: Any, at: At | None
) -> dict[str, Tensor]:
    """What each field of one part adds: h * sum_j b_j k_j, with k_j = f(t + c_j h, x + h sum_i a_ji k_i)."""
    h = move.fraction * step.h
    slopes: list[dict[str, Tensor]] = []
    sums: list[Tensor] = []
    for j, stage in enumerate(move.stages):
        y = total([x, *(scaled(h * a, sums[i]) for i, a in stage.row)]) if stage.row else x
        here = context if at is None else at(context, site._replace(stage=j) if j else site)
        slopes.append(
            {
                name: step.fields[name](clock[colour] + stage.c * h if stage.c else clock[colour], y, here)
                for name, colour in zip(move.fields, move.colours, strict=True)
            }
        )
        if j + 1 < len(move.stages):
            sums.append(total(slopes[-1].values()))
    factor = 1.0 if move.kind == "replace" else h
    pairs = list(zip(move.weights, slopes, strict=True))
    return {name: total(scaled(factor * b, k[name]) for b, k in pairs if b) for name in move.fields}


def advance(
    scheme: Scheme, index: int, step: Step, x: State, context: Any, observe: Observe | None, at: At | None
) -> State:
    """One step: every branch runs its parts from the same state, and the ends are averaged."""
    ends: list[tuple[float, State]] = []
    for branch, (weight, program) in enumerate(scheme.plan):
        y: State = x
        clock: dict[str, Time] = {colour: step.t for move in program for colour in move.colours}
        for number, move in enumerate(program):
            site = Site(index, number, 0, branch)
            t = clock[move.colours[0]] if move.colours else step.t
            moving: Tensor = y[move.half] if scheme.doubled else y
            if move.kind == "project":
                new = step.fields[move.fields[0]](t, moving, context)
                added = {move.fields[0]: new - moving} if observe is not None else {}
            else:
                read: Tensor = y[1 - move.half] if scheme.doubled else y
                added = increments(step, move, site, clock, read, context, at)
                if move.kind == "replace":
                    new = total(added.values()).to(moving.dtype)  # the stream keeps its precision under autocast
                else:
                    new = total([moving, *added.values()])
                for colour in move.colours:
                    clock[colour] = clock[colour] + move.fraction * step.h
            if observe is not None:
                observe(Event(site, move, t, move.fraction * step.h, moving, added, new, context))
            y = ((new, y[1]) if move.half == 0 else (y[0], new)) if scheme.doubled else new
        ends.append((weight, y))
    if len(ends) == 1:
        return ends[0][1]
    if scheme.doubled:
        return tuple(total(scaled(w, y[half]) for w, y in ends) for half in (0, 1))
    return total(scaled(w, y) for w, y in ends)


def is_pair(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) == 2  # pyright: ignore[reportUnknownArgumentType]


def integrate(
    scheme: Scheme,
    steps: Iterable[Step],
    x: State,
    context: Any = None,
    observe: Observe | None = None,
    at: At | None = None,
) -> State:
    """The state after all steps.

    `observe` sees an `Event` per part. `at(context, site)` gives the context for one evaluation, so that cache slots
    and the like derive from the evaluation's name and not from the order of calls. A doubled scheme takes and returns
    a pair of states.
    """
    needed = {*scheme.fields, *scheme.projections}
    if scheme.doubled and not is_pair(x):
        raise ValueError(f"The scheme {str(scheme)!r} moves a pair of states: pass x as a tuple (a, b).")
    for index, step in enumerate(steps):
        if missing := needed - set(step.fields):
            raise ValueError(
                f"Step {index} has no field {', '.join(sorted(missing))}: the scheme {str(scheme)!r} needs "
                f"{', '.join(sorted(needed))}; the step has {', '.join(sorted(step.fields))}."
            )
        x = advance(scheme, index, step, x, context, observe, at)
    return x


def uniform(fields: Mapping[str, Field], end: float, n: int) -> list[Step]:
    """`n` equal steps of the same fields over the interval [0, end]."""
    return [Step(fields, i * end / n, end / n) for i in range(n)]


def refine(steps: Iterable[Step], k: int) -> list[Step]:
    """Cut every step into `k`, holding its fields: the same piecewise-constant equation on a finer grid."""
    return [Step(s.fields, s.t + i * s.h / k, s.h / k) for s in steps for i in range(k)]
