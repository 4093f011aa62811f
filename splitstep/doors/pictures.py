"""Doors for people who look, in Python alone: one call gives a result, and its `.plot()` the picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hints import network_meant
from ..scheme import Scheme
from ..schemes import scheme

if TYPE_CHECKING:
    from ..studies.orders import Orders
    from ..studies.trajectory import Trajectory

TOKENS = 64  # of a text


def orders(*schemes: str | Scheme) -> Orders:
    """The orders of schemes, computed and measured in float64; without any, of all named schemes.

    Example:
        >>> ss.orders("lie", "strang-midpoint", "rk4").plot()      # errors against steps, with guide lines
        >>> ss.orders("A F", "F/2 A F/2 @midpoint").frame()        # a row for each scheme

    Args:
        schemes: Names such as "macaron", notations such as "F0/2 A F1/2", or schemes.

    Returns:
        A result with `.plot()`, `.frame()`, `.verdict` and `.rows`; a notebook shows its page.
    """
    texts = [str(scheme(one)) for one in schemes]  # refuses a wrong one before torch is imported
    from ..studies.orders import orders as computed
    from ..studies.slopes import with_slopes

    return with_slopes(computed(texts, map(str, schemes)))


def trajectory(
    model: Any,
    text: str | Sequence[str] | None = None,
    *,
    tokens: int = TOKENS,
    tokenizer: Any = None,
    progress: bool = False,
) -> Trajectory:
    """Tokens as particles that the layers of a model move: the states of a text through depth, in one plane.

    Example:
        >>> ss.trajectory("runs/code", "def area(self):").plot()
        >>> ss.trajectory(model, ["One text.", "Another."], tokenizer=tokenizer).frame()

    The plane is that of the two leading principal directions of x / |x| over all depths and texts. A notebook shows the
    particles moving; `.plot()` draws the path of each token of the first text, from a hollow circle at the embedding to
    a filled one after the last layer.

    Args:
        model: A run, a model's folder, a GGUF file, a model's name on the Hub, or a model that is open.
        text: One text or several. Default: a text of the package.
        tokens: Each text is truncated after this number of tokens, at most 128.
        tokenizer: The tokenizer of a model that is open.
        progress: Say what it does, on standard error: opening a large model may take a minute.

    Returns:
        A result with `.plot()`, `.frame()`, `.particles` and the states themselves, `.states`.
    """
    if isinstance(model, str | Path) and (meant := network_meant(str(model))):
        raise ValueError(meant)
    if tokens < 2:
        raise ValueError(f"tokens={tokens}: give at least 2.")
    from ..opening.texts import default_texts
    from ..studies.trajectory import opened_of
    from ..studies.trajectory import trajectory as study
    from ..training.progress import Progress

    bar = Progress("trajectory", 0, quiet=not progress)
    bar.say(f"loading {model if isinstance(model, str | Path) else type(model).__name__}")
    texts = default_texts()[:1] if text is None else [text] if isinstance(text, str) else list(text)
    return study(opened_of(model, tokenizer), texts, tokens, bar.counting("states of", "texts"))
