"""The records that alignment makes and the terms consume."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Spans(NamedTuple):
    """Aligned spans of a batch: half-open token ranges in the padded token axes of teacher and student."""

    teacher: Tensor  # [B, S, 2], int64
    student: Tensor  # [B, S, 2], int64
    mask: Tensor  # [B, S], bool; ranges of rows with fewer spans are 0, 0 and False here
