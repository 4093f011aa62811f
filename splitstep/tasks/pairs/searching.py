"""How translations are searched for."""

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int, int], None]
"""Called with the number of lines done and the number of all lines."""


MOST_BEAMS = 1000


STEEPEST = 10  # the greatest length penalty: no float holds the 200th power of a length of forty


@dataclass(frozen=True)
class Search:
    """How to decode: beams, the power of the length that scores are divided by, and source tokens in a batch, by
    default as many as suit the device.

    A translation has at most `stretch` times as many tokens as its source, plus `extra`, whatever else is in the batch.
    """

    beams: int = 5
    length_penalty: float = 1.0
    batch_tokens: int | None = None
    stretch: float = 1.5
    extra: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.beams <= MOST_BEAMS:
            raise ValueError(f"beams is {self.beams}, and needs at least 1 and at most {MOST_BEAMS:,}")
        if not abs(self.length_penalty) <= STEEPEST:
            raise ValueError(
                f"length_penalty is {self.length_penalty}, and must be from -{STEEPEST} to {STEEPEST}, such as 1.0"
            )
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise ValueError(f"batch_tokens is {self.batch_tokens}, and needs at least 1")
        if self.stretch < 0 or self.extra < 1:
            raise ValueError(f"stretch is {self.stretch} and extra {self.extra}; they must be at least 0 and 1")


SEARCH = Search()
