"""Moses tokens, as the papers count and score them: sacremoses, imported on first use."""

import multiprocessing
import os
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from ..support.memory import uncollected

MANY = 200_000  # lines from which several processes share the work
BLOCK = 10_000


def sacremoses(why: str = "Moses tokens need") -> Any:
    """The module, or an error that says what it is needed for and how to get it."""
    try:
        with uncollected():
            import sacremoses
    except ImportError:
        raise ValueError(
            f"{why} sacremoses, which is not installed: pip install 'splitstep[translation]', or use a task without "
            "Moses tokens (option tokens: plain)"
        ) from None
    return sacremoses


@cache
def _tool(kind: str, language: str) -> Any:
    return getattr(sacremoses(), kind)(language)


def tokenise(lines: Sequence[str], language: str, hyphens: bool = False) -> list[str]:
    """Moses tokens with blanks between them, escaped as Moses does; `hyphens` splits a-b into a @-@ b."""
    return _in_blocks(lines, partial(_tokenise_block, language=language, hyphens=hyphens))


def _tokenise_block(lines: Sequence[str], language: str, hyphens: bool) -> list[str]:
    moses = _tool("MosesTokenizer", language)
    return [moses.tokenize(line, aggressive_dash_splits=hyphens, return_str=True, escape=True) for line in lines]


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Plain text from Moses tokens."""
    moses = _tool("MosesDetokenizer", language)
    return [moses.detokenize(HYPHEN.sub("-", line).split(), return_str=True, unescape=True) for line in lines]


HYPHEN = re.compile(r" ?@-@ ?")


def normalise(lines: Sequence[str], language: str) -> list[str]:
    """Normalised punctuation, and no unprintable characters."""
    return _in_blocks(lines, partial(_normalise_block, language=language))


def _normalise_block(lines: Sequence[str], language: str) -> list[str]:
    moses = _tool("MosesPunctNormalizer", language)
    return [UNPRINTED.sub(" ", moses.normalize(line)) for line in lines]


# Unicode category C without unassigned characters: controls, formats, private use.
UNPRINTED = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ue000-\uf8ff\ufeff\ufff9-\uffff]"
)


def _in_blocks(lines: Sequence[str], work: Callable[[Sequence[str]], list[str]]) -> list[str]:
    """The work over blocks of lines, shared by processes if there are many."""
    processes = os.cpu_count() or 1
    if len(lines) < MANY or processes == 1:
        return work(lines)
    blocks = [lines[first : first + BLOCK] for first in range(0, len(lines), BLOCK)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return [line for block in pool.imap(work, blocks) for line in block]


def keep_by_length(source: str, target: str, longest: int, ratio: float | None) -> bool:
    """Moses' clean-corpus: 1 to `longest` words on each side, and neither more than `ratio` times the other."""
    s, t = len(source.split()), len(target.split())
    return 1 <= s <= longest and 1 <= t <= longest and (ratio is None or (s <= ratio * t and t <= ratio * s))
