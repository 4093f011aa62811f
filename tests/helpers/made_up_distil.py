"""Made-up batches of distillation in float64, with padding on either side, and the terms transcribed with loops."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import special
from scipy.spatial import distance
from torch import Tensor, nn

from splitstep.distillation import records
from splitstep.distillation.records import FINAL, IDS, LOGITS, MASSES, OUTPUT, Aligned, Outputs, Spans
from splitstep.flows.keys import Key

IGNORED = -100
LAYERS = {"teacher": 8, "student": 4}
WIDTHS = {"teacher": 6, "student": 5}
SHAPES = records.Shapes(*(records.Shape(LAYERS[side], WIDTHS[side]) for side in LAYERS))


class Made(NamedTuple):
    """The three arguments of a term."""

    teacher: Outputs
    student: Outputs
    aligned: Aligned


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def real_tokens(length: int, lengths: Sequence[int], left: Sequence[bool]) -> Tensor:
    places = torch.arange(length)
    return torch.stack(
        [(places >= length - n) if at_left else (places < n) for n, at_left in zip(lengths, left, strict=True)]
    )


def shown(side: str, real: Tensor, vocabulary: int, seed: int) -> Outputs:
    """A model that shows everything."""
    size, layers, width = real.shape, LAYERS[side], WIDTHS[side]
    masses = random(*size, seed=seed + 1).exp().masked_fill(~real, 0)
    found = {
        LOGITS: random(*size, vocabulary, seed=seed + 2, scale=2),
        FINAL: random(*size, width, seed=seed + 3),
        OUTPUT: random(vocabulary, width, seed=seed + 4),
        **states({layer: random(*size, width, seed=seed + 10 + layer) for layer in range(1, layers + 1)}),
        MASSES: masses / masses.sum(1, keepdim=True),
    }
    return Outputs(real, layers, found)


def states(by_layer: Mapping[int, Tensor], what: str = "states") -> dict[Key, Tensor]:
    return {Key(what, layer): x for layer, x in by_layer.items()}


def changed(given: Outputs, found: Mapping[Key, Tensor], **more: Any) -> Outputs:
    """The same with other tensors under these keys."""
    return replace(given, shown={**given.shown, **found}, **more)


def spans(rows: Sequence[Sequence[tuple[int, int, int, int]]]) -> Spans:
    """Spans from (teacher's begin and end, student's begin and end), padded with nonsense that the mask hides."""
    size = max(map(len, rows)) + 1
    padded = [[*row, *[(1, 3, 0, 2)] * (size - len(row))] for row in rows]
    ranges = torch.tensor(padded)
    mask = torch.tensor([[i < len(row) for i in range(size)] for row in rows])
    return Spans(ranges[..., :2], ranges[..., 2:], mask)


def same(*rows: Sequence[tuple[int, int]]) -> Spans:
    return spans([[(a, b, a, b) for a, b in row] for row in rows])


def labels_of(real: Tensor, prompt: int, vocabulary: int, seed: int) -> Tensor:
    """Random tokens of which the first `prompt` real ones and the padding are not scored."""
    tokens = torch.randint(vocabulary, real.shape, generator=torch.Generator().manual_seed(seed))
    return tokens.masked_fill((real.cumsum(1) <= prompt) | ~real, IGNORED)


def one_tokenizer() -> Made:
    """Three texts that both models read as the same tokens; the last one has a single word."""
    real = real_tokens(7, (7, 5, 4), (False, False, True))
    words = same([(0, 1), (1, 3), (3, 4), (5, 7)], [(0, 2), (2, 5)], [(4, 6)])
    phrases = same([(0, 3), (3, 7)], [(0, 1), (1, 4), (4, 5)], [(3, 5), (5, 7)])
    aligned = Aligned(labels_of(real, 2, 11, 5), spans={"words": words, "phrases": phrases})
    return Made(shown("teacher", real, 11, 100), shown("student", real, 11, 200), aligned)


def two_tokenizers() -> Made:
    """Two texts that the models read as different tokens of different vocabularies."""
    theirs, own = real_tokens(9, (9, 6), (False, True)), real_tokens(7, (6, 7), (False, False))
    ends = spans([[(0, 2, 0, 1), (2, 3, 1, 4), (3, 7, 4, 5), (8, 9, 5, 6)], [(3, 5, 0, 4), (5, 9, 4, 7)]])
    aligned = Aligned(
        labels_of(own, 2, 11, 6),
        labels_of(theirs, 3, 13, 7),
        {"aligned": ends},
        torch.tensor([[0, 3], [4, 1], [7, 10], [12, 0]]),
    )
    return Made(shown("teacher", theirs, 13, 300), shown("student", own, 11, 400), aligned)


def shortened(made: Made, k: int = 3, temperatures: tuple[float, ...] = (1.0, 2.0)) -> Made:
    """The batch with the teacher's largest logits only."""
    kept = records.top_k(made.teacher[LOGITS], k, temperatures)
    tails = {Key("tail", t): x for t, x in kept.tails.items()}
    return made._replace(teacher=changed(made.teacher, {LOGITS: kept.logits, IDS: kept.ids, **tails}))


def map_rows(made: Made, change: Any, token_change: Any = None) -> Made:
    """The batch with `change` applied to tensors that have texts first, `token_change` to those with tokens second."""
    token_change = token_change or change

    def side(x: Outputs) -> Outputs:
        found = {key: y if key == OUTPUT else token_change(y) for key, y in x.shown.items()}
        return changed(x, found, real=token_change(x.real))

    texts = made.aligned
    aligned = replace(
        texts,
        labels=token_change(texts.labels),
        teacher_labels=None if texts.teacher_labels is None else token_change(texts.teacher_labels),
        spans={kind: Spans(*map(change, one)) for kind, one in texts.spans.items()},
    )
    return Made(side(made.teacher), side(made.student), aligned)


def softmax(logits: Any, temperature: float = 1.0) -> list[float]:
    return special.softmax(np.array(logits) / temperature).tolist()


def kl(p: Sequence[float], q: Sequence[float]) -> float:
    return float(special.rel_entr(p, q).sum())


def mix(p: Sequence[float], q: Sequence[float], share: float) -> list[float]:
    return [share * a + (1 - share) * b for a, b in zip(p, q, strict=True)]


def merged(p: Sequence[float], ids: Sequence[int]) -> list[float]:
    """The probabilities at these ids, and that of all others as one class."""
    return [p[i] for i in ids] + [math.fsum(x for i, x in enumerate(p) if i not in ids)]


def cosine(x: Any, y: Any) -> float:
    return 1 - float(distance.cosine(x, y))


def applied(module: nn.Module, x: Any) -> np.ndarray:
    """A linear map without bias, by its matrix."""
    return module.get_parameter("weight").detach().numpy() @ np.asarray(x)


def token_weights(states: Tensor, real: Tensor) -> list[list[float]]:
    """MTA's token weights, text by text, without the padding."""
    out = np.zeros(real.shape)
    for text, known, weights in zip(states.numpy(), real.numpy(), out, strict=True):
        unit = text[known] / text[known].std(1, ddof=1, keepdims=True)
        scores = unit @ unit.T / math.sqrt(text.shape[1])
        np.fill_diagonal(scores, -np.inf)
        weights[known] = special.softmax(scores, axis=1).mean(0)
    return out.tolist()


def centre(states: Any, weights: Any, begin: int, end: int) -> list[float]:
    return np.average(states[begin:end], axis=0, weights=weights[begin:end]).tolist()


def ranges_of(given: Spans, text: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The spans of a text: (teacher's range, student's range)."""
    rows = zip(given.teacher[text].tolist(), given.student[text].tolist(), given.mask[text].tolist(), strict=True)
    return [(tuple(a), tuple(b)) for a, b, here in rows if here]


def pair_sum(theirs: list[list[float]], own: list[list[float]], w: list[float]) -> float:
    """sum of w_i w_j (cos - cos)² over i != j / sum of w_i w_j over i != j."""
    pairs = np.outer(w, w) * (1 - np.eye(len(w)))
    gaps = distance.cdist(own, own, "cosine") - distance.cdist(theirs, theirs, "cosine")
    return float((pairs * gaps**2).sum() / pairs.sum()) if len(w) > 1 else 0.0
