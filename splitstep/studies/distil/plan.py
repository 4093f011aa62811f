"""The runs of the study: methods x seeds, and the method that each is compared with."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from ...distillation.method import Method, parse_method

PLAIN = "ce"  # what every method without a base of its own is compared with
ADDED = "mta."  # terms that are added to another method


class Planned(NamedTuple):
    """A run to do: the method as it was given, its seed, and its folder in the study's own."""

    method: str
    seed: int
    folder: str


def check_methods(methods: Sequence[str], seeds: Sequence[int]) -> None:
    """Refuse methods that are none, or that are listed twice."""
    if not methods or not all(methods):
        raise ValueError(f"--methods {','.join(methods)!r} has an empty entry: write --methods ce,kl,skl,skl+mta")
    plan(methods, seeds)


def plan(methods: Sequence[str], seeds: Sequence[int]) -> list[Planned]:
    """All runs, seed by seed, so that a study that is stopped early has pairs."""
    written = [str(parse_method(method)) for method in methods]
    for position, method in enumerate(written):
        if method in written[:position]:
            raise ValueError(f"--methods: {methods[position]} is the same as {methods[written.index(method)]}: drop it")
    if not methods or not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"the study needs methods and different seeds; got {list(methods)} and {list(seeds)}")
    return [Planned(method, seed, f"runs/{slug(method)}-seed{seed}") for seed in seeds for method in methods]


def slug(method: str) -> str:
    """A folder's name for a method: its text, or as much as a name can have of it and a hash."""
    text = "".join(method.split())
    name = re.sub(r"[^\w.+-]", "_", text)[:40]
    return name if name == text else f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def base_of(method: str, methods: Sequence[str]) -> str:
    """The method of the list that this one adds terms to; empty if it is not there.

    A method with terms of MTA is compared with the same method without them, every other one with `ce`.
    """
    summands = parse_method(method).summands
    rest = tuple(one for one in summands if not one.name.startswith(ADDED))
    wanted = str(Method(rest)) if rest and rest != summands else PLAIN
    found = (other for other in methods if other != method and str(parse_method(other)) == wanted)
    return next(found, "")
