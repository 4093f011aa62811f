"""Run a scheme over a sequence of steps: the only loop over depth in the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from .parts import Move
from .scheme import Scheme, shown
from .schemes import scheme as read_scheme

if TYPE_CHECKING:
    from torch import Tensor  # for annotations only: the import takes a second

Time: TypeAlias = "float | Tensor"
Field: TypeAlias = Callable[["Time", "Tensor", Any], "Tensor"]  # f(t, x, context) -> dx/dt


@runtime_checkable
class ExactField(Protocol):
    """A field that can solve x' = f(t, x) itself, for parts such as D/2@exact."""

    def __call__(self, t: Time, x: Tensor, context: Any) -> Tensor:
        """dx/dt."""
        ...

    def flow(self, t: Time, h: float, x: Tensor, context: Any) -> Tensor:
        """x(t + h)."""
        ...


State = Any  # a Tensor, or a pair (a, b) of them if the scheme is doubled


class Step(NamedTuple):
    """One layer: its fields and projections by name, its start time and its length."""

    fields: Mapping[str, Field]
    t: Time
    h: float


class Site(NamedTuple):
    """The name of one evaluation. Cache slots, dropout masks and the like depend on it, not on the order of calls."""

    step: int
    part: int
    stage: int
    branch: int


class Visit(NamedTuple):
    """One part of one step: its site, what it does, and the time on the clock of each of its fields."""

    site: Site
    move: Move
    times: tuple[Time, ...]  # one for each field
    step: Step


class Event(NamedTuple):
    """What a probe sees of one part: the state before and after it, what each field added, and the fields themselves.

    x_after = x + sum of increments; if the part replaces the state, x_after is their sum alone. In a doubled state x is
    the half that moves and `read` the other one. The first stage evaluates fields[name](times[name], read, context),
    so a probe can take derivatives.
    """

    site: Site
    move: Move
    t: Time
    h: float
    x: Tensor
    increments: Mapping[str, Tensor]
    x_after: Tensor
    context: Any  # of the first stage, as `at` returned it
    fields: Mapping[str, Field]
    times: Mapping[str, Time]
    read: Tensor
    state: State  # the whole of it, before the part

    @property
    def before(self) -> Tensor:
        """The state before the part as one tensor: the mean of a pair, as at the end of a stack."""
        return (self.state[0] + self.state[1]) / 2 if self.move.half >= 0 else self.state


Observe = Callable[[Event], None]
At = Callable[[Any, Site], Any]
Advance = Callable[[State, Any], State]  # one step: (x, context) -> x
Run = Callable[[Advance, State, Any], State]  # calls it, now or now and again in the backward pass


def visits(program: Sequence[Move], step: Step, index: int, branch: int = 0) -> Iterator[Visit]:
    """The parts of one step in order. Every letter has a clock, and each part moves the clocks of its fields."""
    clock: dict[str, Time] = {colour: step.t for move in program for colour in move.colours}
    for number, move in enumerate(program):
        times = tuple(clock[colour] for colour in move.colours) or (step.t,)
        yield Visit(Site(index, number, 0, branch), move, times, step)
        for colour in move.colours:
            clock[colour] = clock[colour] + move.fraction * step.h


def contexts(visit: Visit, context: Any, at: At | None) -> list[Any]:
    """The context of each stage of a part."""
    if at is None or visit.move.kind == "project":
        return [context] * len(visit.move.stages)
    return [at(context, visit.site._replace(stage=j)) for j in range(len(visit.move.stages))]


def scaled(c: float, x: Tensor) -> Tensor:
    return x if c == 1.0 else c * x


def total(terms: Iterable[Tensor]) -> Tensor:
    return reduce(add, terms)


def checked(visit: Visit, name: str, k: Any, x: Tensor) -> Tensor:
    """k = f(t, x) of one field, unless it cannot be a slope of x: its shape differs, it is not real or it has more
    precision than x. Under autocast it may be float32."""
    from torch import Tensor, float32, promote_types

    if not isinstance(k, Tensor):
        wrong = f"a value of type {type(k).__name__}"
    elif k.shape == x.shape and (
        k.dtype == x.dtype or (k.is_floating_point() and promote_types(k.dtype, x.dtype) in (x.dtype, float32))
    ):
        return k
    else:
        wrong = f"shape {tuple(k.shape)} and {k.dtype}"
    raise ValueError(
        f"Field {name} of step {visit.site.step} returned {wrong}: it must return a tensor of the state's shape "
        f"{tuple(x.shape)} and {x.dtype}, or of less precision."
    )


def flowed(visit: Visit, x: Tensor, context: Any) -> dict[str, Tensor]:
    """What an exact flow adds: x(t + h) - x."""
    [name], [t] = visit.move.fields, visit.times
    field: Any = visit.step.fields[name]
    after = field.flow(t, visit.move.fraction * visit.step.h, x, context)
    return {name: checked(visit, name, after, x) - x}


def increments(visit: Visit, x: Tensor, contexts: Sequence[Any]) -> dict[str, Tensor]:
    """What each field of one part adds: h * sum_j b_j k_j, with k_j = f(t + c_j h, x + h sum_i a_ji k_i).

    A part that replaces the state or projects it has no factor h.
    """
    if visit.move.kind == "flow":
        return flowed(visit, x, contexts[0])
    move, h = visit.move, visit.move.fraction * visit.step.h
    spans = [h * move.colours.count(colour) for colour in move.colours]  # how far the part moves each field's clock
    slopes: list[dict[str, Tensor]] = []
    sums: list[Tensor] = []
    for stage, context in zip(move.stages, contexts, strict=True):
        y = total([x, *(scaled(h * a, sums[i]) for i, a in stage.row)]) if stage.row else x
        times = [t + stage.c * span for t, span in zip(visit.times, spans, strict=True)] if stage.c else visit.times
        names = zip(move.fields, times, strict=True)
        slopes.append({name: checked(visit, name, visit.step.fields[name](t, y, context), y) for name, t in names})
        if len(slopes) < len(move.stages):
            sums.append(total(slopes[-1].values()))
    factor = h if move.kind == "add" else 1.0
    pairs = list(zip(move.weights, slopes, strict=True))
    return {name: total(scaled(factor * b, k[name]) for b, k in pairs if b) for name in move.fields}


def moved(move: Move, x: Tensor, added: Mapping[str, Tensor]) -> Tensor:
    """The state, or the half that moves, after a part."""
    if move.kind in ("add", "flow"):
        return total([x, *added.values()])
    new = total(added.values())
    return new.to(x.dtype) if move.kind == "replace" else new  # the stream keeps its precision under autocast


def run_part(visit: Visit, state: State, context: Any, observe: Observe | None, at: At | None) -> State:
    """The state after one part."""
    site, move, times, step = visit
    x, read = (state[move.half], state[1 - move.half]) if move.half >= 0 else (state, state)
    given = contexts(visit, context, at)
    added = increments(visit, read, given)
    new = moved(move, x, added)
    if observe is not None:
        gained = {name: new - x for name in added} if move.kind == "project" else added
        fields = {name: step.fields[name] for name in move.fields}
        clocks = dict(zip(move.fields, times, strict=True))
        h = move.fraction * step.h
        observe(Event(site, move, times[0], h, x, gained, new, given[0], fields, clocks, read, state))
    return {-1: new, 0: (new, read), 1: (read, new)}[move.half]


def advance(
    scheme: Scheme, index: int, step: Step, x: State, context: Any, observe: Observe | None, at: At | None
) -> State:
    """One step: every branch runs its parts from the same state, and the ends are averaged."""
    ends: list[tuple[float, State]] = []
    for branch, (weight, program) in enumerate(scheme.plan):
        y: State = x
        for visit in visits(program, step, index, branch):
            y = run_part(visit, y, context, observe, at)
        ends.append((weight, y))
    if len(ends) == 1:
        return ends[0][1]
    if scheme.doubled:
        return tuple(total(scaled(w, y[half]) for w, y in ends) for half in (0, 1))
    return total(scaled(w, y) for w, y in ends)


def integrate(
    scheme: Scheme | str,
    steps: Iterable[Step],
    x: State,
    context: Any = None,
    observe: Observe | None = None,
    at: At | None = None,
    run: Run | None = None,
) -> State:
    """The state after all steps of a scheme, which is also a name or a notation: integrate("F/2 A F/2", steps, x).

    `observe` is called with an `Event` for each part. `at(context, site)` returns the context for one evaluation, so
    cache slots and the like depend on the evaluation's name and not on the order of calls. `run(advance, x, context)`
    may recompute a step instead of storing what is inside. A doubled scheme takes and returns a pair of states.
    """
    if not isinstance(scheme, Scheme):
        scheme = read_scheme(scheme)
    _check_state(scheme, x)
    index = -1
    for index, step in enumerate(steps):
        _check_step(scheme, index, step)
        if run is None:
            x = advance(scheme, index, step, x, context, observe, at)
        else:
            x = run(partial(advance, scheme, index, step, observe=observe, at=at), x, context)
    if index < 0:
        raise ValueError("integrate got no steps: pass at least one Step, such as uniform(fields, end=1.0, n=8).")
    return x


def _check_state(scheme: Scheme, x: State) -> None:
    from torch import Tensor

    kinds: list[type] = list(map(type, x)) if isinstance(x, tuple) else [type(x)]  # pyright: ignore[reportUnknownArgumentType]
    halves = len(kinds) if isinstance(x, tuple) else 0
    if halves != 2 * scheme.doubled or not all(issubclass(kind, Tensor) for kind in kinds):
        needed = "a pair of states: pass x as a tuple (a, b)" if scheme.doubled else "one state: pass x as a tensor"
        raise ValueError(f"The scheme {shown(scheme)!r} moves {needed}.")


def _check_step(scheme: Scheme, index: int, step: Step) -> None:
    if not isinstance(step, Step):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"Step {index} is a {type(step).__name__}: pass Steps, such as [Step(fields, 0.0, 1.0)].")
    needed = {*scheme.fields, *scheme.projections}
    if missing := needed - set(step.fields):
        raise ValueError(
            f"Step {index} has no field {', '.join(sorted(missing))}: the scheme {shown(scheme)!r} needs "
            f"{', '.join(sorted(needed))}; the step has {', '.join(sorted(step.fields))}."
        )
    for name in scheme.solved:
        if not isinstance(step.fields[name], ExactField):
            raise ValueError(
                f"Field {name} of step {index} has no method flow(t, h, x, context), which {shown(scheme)!r} needs: "
                f"add one, or write {name} with a tableau such as {name}@heun."
            )


def uniform(fields: Mapping[str, Field], end: float, n: int) -> list[Step]:
    """`n` equal steps of the same fields over the interval [0, end]."""
    return [Step(fields, i * end / n, end / n) for i in range(n)]


def refine(steps: Iterable[Step], k: int) -> list[Step]:
    """Cut every step into `k` with the same fields: the same piecewise-constant equation on a finer grid."""
    return [Step(s.fields, s.t + i * s.h / k, s.h / k) for s in steps for i in range(k)]
