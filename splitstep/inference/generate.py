"""Text from a run's language model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from ..fields.attention import unplanned_attention
from ..tasks.language import Language
from ..tasks.options import holdable
from .runs import Trained, open_run

MOST_TOKENS = 1_000_000  # one by one, and nothing is shown before the last


@dataclass(frozen=True)
class Sample:
    """A prompt and what the model wrote after it."""

    run: str
    prompt: str
    text: str
    tokens: int
    temperature: float
    seed: int

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)


def generate(
    path: Path, prompt: str, tokens: int = 200, temperature: float = 1.0, seed: int = 0, data: Path | None = None
) -> Sample:
    """Let a run's language model go on from the prompt; a temperature of 0 takes the likeliest token each time."""
    if not 1 <= tokens <= MOST_TOKENS or not 0 <= temperature < math.inf:
        raise ValueError(
            f"generate needs at least one token and at most {MOST_TOKENS:,}, and a temperature of at least 0; got "
            f"{tokens} and {temperature}"
        )
    holdable("the seed", seed)
    run = open_run(path, data)
    if not isinstance(run.task, Language):
        raise ValueError(f'task "{run.task.name}" has no text to go on with: generate needs a run of a language model')
    given = run.task.encode(prompt)
    if not given:
        raise ValueError('the prompt is empty: give some text to go on from, such as --prompt "The "')
    written = sample(run, given, tokens, temperature, seed)
    return Sample(str(path), prompt, run.task.decode(written), tokens, temperature, seed)


@torch.no_grad()
def sample(run: Trained, given: list[int], tokens: int, temperature: float, seed: int) -> list[int]:
    """The tokens that follow. The model sees a window of its task's length; a full one begins again at its half."""
    device, length = next(run.model.parameters()).device, run.task.length
    random = torch.Generator().manual_seed(seed)
    ids, new, cache = list(given), list(given)[-length:], DynamicCache()
    with unplanned_attention():
        for _ in range(tokens):
            if cache.get_seq_length() + len(new) > length:
                new, cache = ids[-(length // 2) :], DynamicCache()
            found = run.model(torch.tensor([new], device=device), past_key_values=cache, use_cache=True)
            new = [int(draw(found.logits[0, -1].float().cpu(), temperature, random))]
            ids += new
    return ids[len(given) :]


def draw(logits: Tensor, temperature: float, random: torch.Generator) -> Tensor:
    if temperature == 0:
        return logits.argmax()
    return torch.multinomial(((logits - logits.max()) / temperature).softmax(-1), 1, generator=random)
