"""What a result says in one sentence: a value made once, and its three renderers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Literal, NamedTuple

from .tables import markdown_text

if TYPE_CHECKING:
    from rich.console import RenderableType


class Verdict(NamedTuple):
    """One sentence made from the figures, and whether it settles something, leaves it open or lacks the data."""

    kind: Literal["settled", "open", "too few"]
    sentence: str


def verdict_to_terminal(verdict: Verdict) -> RenderableType:
    from rich.text import Text

    return Text(f"{verdict.sentence}\n", style="bold")


def verdict_to_html(verdict: Verdict) -> str:
    return f'<p class="verdict {verdict.kind.replace(" ", "-")}">{escape(verdict.sentence)}</p>'


def verdicts_to_markdown(verdicts: Sequence[tuple[str, Verdict]]) -> str:
    """One sentence, or a list of them under the names of their results."""
    if len(verdicts) == 1:
        return f"{markdown_text(verdicts[0][1].sentence)}\n"
    return "".join(f"- {markdown_text(name)}: {markdown_text(one.sentence)}\n" for name, one in verdicts)
