"""Whether models of schemes keep what every model promises: small ones of each kind, tried."""

from dataclasses import replace

from ..models.contract import findings
from ..shape import SHAPES
from .orders import Kept, Orders


def with_promises(result: Orders) -> Orders:
    """The result with what models of its schemes promise, and how they keep it."""
    rows = (replace(row, promises=tuple(kept(row.notation, kind) for kind in SHAPES)) for row in result.rows)
    return replace(result, rows=tuple(rows))


def kept(notation: str, kind: str) -> Kept:
    """How models of this kind keep their promises."""
    found = findings(notation, kind)
    figures, broken = {one.promise: one.figure for one in found}, {one.promise: one.broken for one in found}
    return Kept(kind, figures, {name: says for name, says in broken.items() if says})
