"""Translators on held-out text: a split translated and scored, two systems on the same sentences, averaged weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..models import SplitstepForTranslation
from ..tasks.text_pairs.scores import Score, score
from ..tasks.text_pairs.search import SEARCH, Progress, Search, decode_lines
from ..tasks.translation import Translation


@dataclass(frozen=True)
class Translated:
    """A split translated and scored."""

    task: str
    scheme: str
    split: str
    lines: int
    search: Search
    scores: tuple[Score, ...]
    hypotheses: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The result as JSON values, without the text."""
        scores = [one._asdict() for one in self.scores]
        search = asdict(self.search)
        return {
            "task": self.task, "scheme": self.scheme, "split": self.split, "lines": self.lines, "search": search,
            "scores": scores,
        }  # fmt: skip


def translate_split(
    model: SplitstepForTranslation,
    task: Translation,
    split: str,
    search: Search = SEARCH,
    precision: torch.dtype = torch.float32,
    progress: Progress | None = None,
) -> Translated:
    """Translate a held-out split and score it."""
    lines, codec = task.text(split), task.codec
    prepared = codec.form.prepare(lines.source, codec.form.source, codec.form.tokens == "given")
    hypotheses = decode_lines(model, codec, prepared, search, precision, progress)
    scores = tuple(score(hypotheses, lines, codec.form, task.papers))
    return Translated(task.name, model.config.scheme, split, len(hypotheses), search, scores, tuple(hypotheses))


@dataclass(frozen=True)
class Paired:
    """Two systems on the same sentences: BLEU of each, their difference with its 95 % interval, and p."""

    baseline: float
    system: float
    difference: float
    low: float
    high: float
    p: float
    signature: str
    samples: int

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)


def paired_bootstrap(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
    samples: int = 1000,
) -> Paired:
    """Paired bootstrap over sentences: p is sacrebleu's own test, the interval is over the same kind of resamples."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    if not len(baseline) == len(system) == len(references) > 0:
        raise ValueError(
            f"a paired test needs the same sentences: {len(baseline):,} and {len(system):,} translations, "
            f"{len(references):,} references"
        )
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True, references=[list(references)])
    test = PairedTest(
        [("baseline", list(baseline)), ("system", list(system))], {"BLEU": metric}, None, "bs", n_samples=samples
    )
    signatures, results = test()
    one, two = results["BLEU"]
    assert not isinstance(one, str), one
    assert not isinstance(two, str), two
    counts = [sentence_counts(lines, references, tokenize, lowercase) for lines in (baseline, system)]
    rows = np.random.default_rng(12345).integers(len(references), size=(samples, len(references)))
    gaps = [bleu_of(counts[1][row].sum(0)) - bleu_of(counts[0][row].sum(0)) for row in rows]
    low, high = np.percentile(gaps, [2.5, 97.5])
    # sacrebleu counts differences above the mean, of which equal systems have none, and so would call them different.
    p = 1.0 if list(baseline) == list(system) else two.p_value
    assert p is not None, two
    return Paired(
        one.score, two.score, two.score - one.score, float(low), float(high), float(p),
        str(signatures["BLEU"]), samples,
    )  # fmt: skip


def sentence_counts(lines: Sequence[str], references: Sequence[str], tokenize: str, lowercase: bool) -> np.ndarray:
    """What BLEU adds up over sentences [N, 10]: matches and n-grams of four lengths, both lengths in words."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True, effective_order=True)
    found = (metric.sentence_score(line, [reference]) for line, reference in zip(lines, references, strict=True))
    return np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in found])


def bleu_of(counts: np.ndarray) -> float:
    """Corpus BLEU from added counts."""
    from sacrebleu.metrics.bleu import BLEU

    whole = [int(n) for n in counts]
    return BLEU.compute_bleu(whole[:4], whole[4:8], whole[8], whole[9], smooth_method="exp").score


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights (safetensors), tensor by tensor, in the type they were saved in."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not paths:
        raise ValueError("there are no checkpoints to average: name at least one .safetensors file")
    sums: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for path in paths:
        try:
            weights = load_file(path)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"cannot read the weights in {path}: {error}") from None
        if sums:
            check_same(paths[0], sums, path, weights)
        for name, weight in weights.items():
            kinds[name] = weight.dtype
            sums[name] = sums[name] + weight.double() if name in sums else weight.double()
    return {name: (total / len(paths)).to(kinds[name]) for name, total in sums.items()}


def check_same(first: Path, ours: Mapping[str, Tensor], path: Path, theirs: Mapping[str, Tensor]) -> None:
    """Refuse checkpoints of different models."""
    odd = sorted(
        n for n in ours.keys() | theirs.keys() if n not in ours or n not in theirs or ours[n].shape != theirs[n].shape
    )
    if odd:
        raise ValueError(
            f"{first} and {path} are of different models, e.g. in {odd[0]}: average checkpoints of one run"
        )
