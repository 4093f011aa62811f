"""Name the fields of a block and write it as a scheme: A mixes tokens, C reads another stack, F does neither."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import chain, count
from math import isclose
from operator import add
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from ..scheme import Part, Project, Substep
from .attention import Function, weights_of
from .layout import Axes, Frame
from .replay import replay
from .sums import Graph, Sum, Term

Letters = tuple[tuple[str, ...], ...]  # of each part: one for each term
SPARE = "BEGHIJKOQRTUVXYZ"  # for a second part of the same letter
MIXING = "AC"  # letters that attention may have
ROUNDING = 1e-5  # of what a field adds: two passes may differ by less
SKIP, WHOLE = "L", "W"  # what a scaled skip adds to the state; a whole layer


class Terms(NamedTuple):
    """A field of a block: factor * the value of a node, summed, and what else is added in this pass. All have the axes
    of the block's state in this order."""

    terms: tuple[Term, ...]
    axes: Axes
    added: Tensor | None = None

    def of(self, values: Sequence[Tensor], frame: Frame) -> Tensor:
        """The field from the values of its nodes."""
        frame = frame.turned(self.axes)
        pairs = zip(self.terms, values, strict=True)
        found = [(term.factor * x if term.factor != 1.0 else x).reshape(frame.shape) for term, x in pairs]
        return frame.seen(reduce(add, found if self.added is None else [*found, self.added]))

    def field(self, graph: Graph, start: int, frame: Frame) -> Function:
        """The field as a function of the state at node `start`."""
        functions = [replay(graph, start, term.node) for term in self.terms]
        turned = frame.turned(self.axes)

        def field(u: Tensor) -> Tensor:
            x = turned.own(u)
            return self.of([f(x) for f in functions], frame)

        return field


class Piece(NamedTuple):
    """One part of a block's scheme, and its fields as functions of the state before it; of those with attention, the
    weights too."""

    part: Part
    fields: Mapping[str, Function]
    weights: Mapping[str, Function] = MappingProxyType({})
    sums: Mapping[str, Terms] = MappingProxyType({})


def letters_of(graph: Graph, parts: Sequence[Sum], others: Sequence[Tensor], frame: Frame) -> Letters:
    """The letter of each field, found by moving tokens. `others` are the states of another stack."""
    known = {id(one) for one in others}

    def letter(part: Sum, term: Term) -> str:
        field = Terms((Term(1.0, term.node),), part.axes).field(graph, part.start, frame)
        spread = spreads(field, frame.turned(part.axes).seen(graph.value(part.start)))
        if spread is None:
            return ""
        return "A" if spread else "C" if reads(graph, part.start, term.node, known) else "F"

    found: list[tuple[str, ...]] = []
    for part in parts:
        own = [letter(part, term) for term in part.terms]
        # a term that does not depend on the state, such as a bias that was expanded to its shape, goes with another
        first = next(filter(None, own), "F")
        found.append(tuple(one or first for one in own))
    return tuple(found)


def spreads(f: Function, x: Tensor) -> bool | None:
    """Whether what f returns for a token changes when all others move; None if nothing changes at all. It is the last
    token, then the first: each may look at itself alone."""
    tokens, before = x.reshape(-1, x.shape[-1]), f(x)
    noise = tokens.std() * torch.randn(tokens.shape, generator=torch.Generator().manual_seed(0)).to(tokens)
    least = max(ROUNDING, 4 * torch.finfo(x.dtype).eps) * float(before.abs().max())
    most = 0.0
    for kept in (len(tokens) - 1, 0):
        others = torch.arange(len(tokens), device=x.device) != kept
        moved = tokens + noise * others[:, None]
        change = (f(moved.reshape(x.shape)) - before).reshape(len(tokens), -1).abs().amax(-1)
        if float(change[kept]) > least:
            return True
        most = max(most, float(change.max()))
    return False if most > least or len(tokens) < 2 else None


def reads(graph: Graph, start: int, end: int, known: set[int]) -> bool:
    """Whether a field reads one of these tensors."""
    seen, waiting = set[int](), [end]
    while waiting:
        i = waiting.pop()
        if i in seen or i <= start:
            continue
        seen.add(i)
        if any(id(one) in known for one, ref in graph.nodes[i].arguments if ref is None):
            return True
        waiting += graph.nodes[i].needs
    return False


def pieces(graph: Graph, parts: Sequence[Sum], letters: Letters, frame: Frame) -> list[Piece]:
    """The block as parts of a scheme with their fields."""
    halves = split_letters(parts, letters)
    taken: set[str] = set()
    projections = chain("NMP", (f"N{i}" for i in count()))
    found: list[Piece] = []
    for number, (part, own) in enumerate(zip(parts, letters, strict=True)):
        fields = fields_of(part, own, frame)
        if number in halves:
            name, factor = halves[number]
            made, names = Substep((name,), Fraction(factor).limit_denominator(100)), {own[0]: name}
            fields = {own[0]: Terms((part.terms[0]._replace(factor=1.0),), part.axes)}
            taken.add(own[0])
        elif not part.skip and own == ("F",):
            names = {"F": next(projections)}
            made = Project(names["F"])
        else:
            names = {letter: new_name(letter, taken) for letter in fields}
            made = Substep(tuple(names.values()), replaces=not part.skip)
        found.append(piece(graph, part.start, made, fields, names, frame))
    return found


def split_letters(parts: Sequence[Sum], letters: Letters) -> dict[int, tuple[str, float]]:
    """The parts that advance one letter by fractions, as in F0/2 A F1/2: their names and fractions."""
    found: dict[str, list[tuple[int, float]]] = {}
    for number, (part, own) in enumerate(zip(parts, letters, strict=True)):
        if part.skip:
            for letter in own:
                lone = len(own) == 1 and part.skip == 1.0 and not part.constants
                found.setdefault(letter, []).append((number, part.terms[0].factor if lone else 1.0))
    return {
        number: (f"{letter}{k}", factor)
        for letter, uses in found.items()
        if len(uses) > 1 and isclose(sum(factor for _, factor in uses), 1, rel_tol=1e-6)
        for k, (number, factor) in enumerate(uses)
    }


def new_name(letter: str, taken: set[str]) -> str:
    """The letter, or another if an earlier part has it."""
    name = next(one for one in letter + SPARE if one not in taken)
    taken.add(name)
    return name


def fields_of(part: Sum, letters: Sequence[str], frame: Frame) -> dict[str, Terms]:
    """The fields of a part by their letters. Terms of one letter are one field: routed and shared experts. A skip other
    than x is a field of its own."""
    groups: dict[str, tuple[Term, ...]] = {}
    for letter, term in zip(letters, part.terms, strict=True):
        groups[letter] = (*groups.get(letter, ()), term)
    if part.skip not in (0.0, 1.0):
        groups[SKIP] = (Term(part.skip - 1, part.start),)
    constants = [term.factor * term.constant for term in part.constants if term.constant is not None]
    added = torch.stack(constants).sum(0).reshape(frame.turned(part.axes).shape) if constants else None
    return {key: Terms(terms, part.axes, added if key == letters[0] else None) for key, terms in groups.items()}


def piece(
    graph: Graph, start: int, part: Part, fields: Mapping[str, Terms], names: Mapping[str, str], frame: Frame
) -> Piece:
    """A part with its fields, which are given by letter, and the attention weights of those that have some."""
    weights = {
        names[letter]: weights_of(graph, start, [term.node for term in one.terms], frame.turned(one.axes))
        for letter, one in fields.items()
        if letter in MIXING
    }
    named = {names[letter]: one for letter, one in fields.items()}
    functions = {name: one.field(graph, start, frame) for name, one in named.items()}
    return Piece(part, functions, {name: f for name, f in weights.items() if f is not None}, named)
