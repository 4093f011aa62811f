"""Reads the result of the study. Its claims are made again, so results of all versions say them in the same words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import read_document
from .claims import claims_of
from .result import FORMAT, DistilResult


def read_distil(document: Any, where: str) -> DistilResult:
    """The result that a result.json holds. Older ones have claims with the base minus the method in bits per byte."""
    found = read_document(DistilResult, document, where, FORMAT)
    return replace(found, claims=tuple(claims_of(found.differences)))
