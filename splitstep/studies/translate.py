"""Translating lines with a trained model, and scoring translations: each BLEU under its own name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..models import SplitstepForTranslation
from ..tasks.text_pairs import moses
from ..tasks.text_pairs.codec import END, PAD, Codec, Form, check_fit
from ..tasks.text_pairs.lines import Lines
from ..tasks.translation import PapersBleu, Translation

Progress = Callable[[int, int], None]
"""Called with the lines done and the lines in all."""


@dataclass(frozen=True)
class Search:
    """How to decode: beams, the power of the length that scores are divided by, and source tokens in a batch.

    A translation has at most `stretch` times as many tokens as its source, and `extra` more.
    """

    beams: int = 5
    length_penalty: float = 1.0
    batch_tokens: int = 4096
    stretch: float = 1.5
    extra: int = 10

    def __post_init__(self) -> None:
        if self.beams < 1 or self.batch_tokens < 1:
            raise ValueError(f"beams {self.beams} and batch_tokens {self.batch_tokens} must be at least 1")
        if self.stretch < 0 or self.extra < 1:
            raise ValueError(f"stretch {self.stretch} must not be negative, and extra {self.extra} be at least 1")


SEARCH = Search()


def translate(
    model: SplitstepForTranslation,
    codec: Codec,
    lines: Sequence[str],
    search: Search = SEARCH,
    precision: torch.dtype = torch.float32,
    progress: Progress | None = None,
) -> list[str]:
    """Text as people write it, line by line; an empty line stays empty."""
    prepared = codec.form.prepare(lines, codec.form.source, tokenised=False)
    decoded = decode_lines(model, codec, prepared, search, precision, progress)
    return codec.form.plain(decoded, codec.form.target)


def decode_lines(
    model: SplitstepForTranslation,
    codec: Codec,
    prepared: Sequence[str],
    search: Search,
    precision: torch.dtype = torch.float32,
    progress: Progress | None = None,
) -> list[str]:
    """Prepared source lines to prepared target lines (Moses tokens where the model has them), in the same order."""
    check_fit(codec, model.config.vocab_size)
    sources = list(codec.encode(prepared))
    refuse_long(model, sources)
    out = [""] * len(sources)
    filled = [row for row, ids in enumerate(sources) if len(ids) > 1]
    done = len(sources) - len(filled)
    for rows in groups([len(ids) for ids in sources], filled, search.batch_tokens):
        ids = generate_ids(model, [sources[row] for row in rows], search, precision)
        for row, text in zip(rows, codec.decode(ids), strict=True):
            out[row] = text
        done += len(rows)
        if progress is not None:
            progress(done, len(sources))
    return out


def groups(lengths: Sequence[int], rows: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Rows of similar length, the longest first, so that too little memory shows at once."""
    ordered = sorted(rows, key=lambda row: -lengths[row])
    first = 0
    while first < len(ordered):
        many = max(1, tokens // lengths[ordered[first]])
        yield ordered[first : first + many]
        first += many


def refuse_long(model: SplitstepForTranslation, sources: Sequence[Sequence[int]]) -> None:
    """Refuse lines with more tokens than the model has learnt positions; sinusoids and rotations go on for ever."""
    config = model.config
    long = [row for row, ids in enumerate(sources) if len(ids) > config.max_positions]
    if config.positions == "learned" and long:
        raise ValueError(
            f"{len(long)} of {len(sources)} lines have more tokens than this model's {config.max_positions} learned "
            f"positions, the first being line {long[0] + 1} with {len(sources[long[0]])}; nothing is cut: shorten them"
        )


def longer_than_trained(model: SplitstepForTranslation, codec: Codec, lines: Sequence[str]) -> list[int]:
    """The numbers, from 1, of lines more than twice as long as any pair of the model's data: worth a warning."""
    prepared = codec.form.prepare(lines, codec.form.source, tokenised=False)
    return [row for row, ids in enumerate(codec.encode(prepared), 1) if len(ids) > model.config.max_positions]


@torch.no_grad()
def generate_ids(
    model: SplitstepForTranslation, sources: Sequence[Sequence[int]], search: Search, precision: torch.dtype
) -> list[list[int]]:
    """The best translation of each source, as token ids behind <s>."""
    device = next(model.parameters()).device
    width = max(map(len, sources))
    ids = torch.tensor([[*source, *[PAD] * (width - len(source))] for source in sources])
    mask = torch.arange(width) < torch.tensor([[len(source)] for source in sources])
    most = int(search.stretch * width) + search.extra
    if model.config.positions == "learned":
        most = min(most, model.config.max_positions - 1)
    beams: dict[str, Any] = {} if search.beams == 1 else {"length_penalty": search.length_penalty}
    with torch.autocast(device.type, dtype=precision, enabled=precision != torch.float32):
        found: Any = model.generate(  # pyright: ignore[reportAttributeAccessIssue]
            ids.to(device), attention_mask=mask.long().to(device), num_beams=search.beams, do_sample=False,
            max_new_tokens=most, eos_token_id=END, **beams,
        )  # fmt: skip
    return found.tolist()


class Score(NamedTuple):
    """A figure with its signature; it is not `comparable` where the references are no published text."""

    name: str
    value: float
    signature: str
    comparable: bool = True


def score(hypotheses: Sequence[str], references: Lines, form: Form, papers: PapersBleu = "lower-cased") -> list[Score]:
    """All figures of prepared hypotheses: sacreBLEU, chrF, and the BLEU that papers print on such data.

    Where only Moses tokens of the references are published, sacreBLEU and chrF are on their detokenised form and not
    comparable with anybody's.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if len(hypotheses) != len(references.target) or not hypotheses:
        raise ValueError(
            f"{len(hypotheses):,} translations cannot be scored against {len(references.target):,} references"
        )
    ours = form.plain(hypotheses, form.target)
    published = references.plain if form.tokens == "given" else references.target
    theirs = form.plain(references.target, form.target) if published is None else published
    bleu, chrf = BLEU(lowercase=form.lower), CHRF(lowercase=form.lower)
    found = [
        Score(name, metric.corpus_score(ours, [theirs]).score, str(metric.get_signature()), published is not None)
        for name, metric in (("sacreBLEU", bleu), ("chrF", chrf))
    ]
    wanted = [line.lower() for line in theirs] if form.lower else theirs
    equal = sum(one == two for one, two in zip(ours, wanted, strict=True))
    exact = Score(
        "exact match", 100 * equal / len(ours), "percent of lines equal to their reference", published is not None
    )
    return [*found, papers_score(hypotheses, ours, references.target, theirs, form, papers), exact]


def papers_score(
    hypotheses: Sequence[str], ours: Sequence[str], given: Sequence[str], theirs: Sequence[str], form: Form,
    papers: PapersBleu,
) -> Score:  # fmt: skip
    """multi-bleu.perl's figure on Moses tokens."""
    if papers == "compounds":
        one, two = (split_compounds(moses.tokenise(lines, form.target)) for lines in (ours, theirs))
        return Score("BLEU (tokenised, cased, compounds split)", *multi_bleu(one, two))
    if form.tokens == "plain":
        one, two = moses.tokenise(ours, form.target), moses.tokenise(theirs, form.target)
    else:
        one, two = hypotheses, given if form.tokens == "given" else moses.tokenise(theirs, form.target)
    return Score("BLEU (tokenised, lower-cased)", *multi_bleu([x.lower() for x in one], [x.lower() for x in two]))


def multi_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Corpus BLEU on tokens as they stand, no smoothing, and its signature."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())


def split_compounds(lines: Sequence[str]) -> list[str]:
    """a-b as a ##AT##-##AT## b, as the papers on WMT14 do before they count."""
    return [COMPOUND.sub(r"\1 ##AT##-##AT## \2", line) for line in lines]


COMPOUND = re.compile(r"(\S)-(\S)")


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
