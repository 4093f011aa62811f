"""Reads the result of the study. Its claims are made again, so results of all versions say them in the same words."""

from __future__ import annotations

from dataclasses import replace

from .claims import claims_of
from .result import DistilResult


def with_claims(found: DistilResult) -> DistilResult:
    """The result with its claims made again."""
    return replace(found, claims=tuple(claims_of(found.differences)))
