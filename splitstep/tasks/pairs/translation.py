"""Translation: pairs of token sequences in batches of a few shapes, each with about as many tokens."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, final

import numpy as np
import torch
from torch import Tensor, nn

from ...kernels.loss import decoder_inputs
from ...models import SplitstepForTranslation
from ...options import at_least
from ...text import moses
from ...text.lines import Lines
from ..buckets import MULTIPLE, Buckets, check_buckets, choose_widths, padded, rows_of
from ..task import IGNORED, PERPLEXITY, Batch, FreeRun, Metric, Task, check_split, check_totals, score_tokens
from .codec import PAD, START, TOKENIZER, Codec, Form
from .prepared import Limits, Part, Wanted, prepare
from .scores import PAPERS, PapersBleu, Score
from .scores import score as score_lines
from .search import Progress, Search, decode_lines

LOWER_CASED, COMPOUNDS = (
    Metric("bleu", True, "{:.2f}", PAPERS[kind], 0.0, 100.0) for kind in ("lower-cased", "compounds")
)
SACREBLEU = Metric("sacrebleu", True, "{:.2f}", "sacreBLEU", 0.0, 100.0)
EXACT_MATCH = Metric("exact_match", True, "{:.2f}", "exact match, %", 0.0, 100.0)
Direction = Literal["en-de", "de-en"]
BUCKETS = 5


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """What all translation tasks take.

    `direction`: source and target language. `merges`: of the joint byte-pair encoding. `words`, `ratio`, `longest`:
    training leaves out pairs with more words, a larger length ratio, more subwords; what is left out is counted.
    `buckets`: padded lengths; by default the five that waste least. `limit`: the most training pairs. `beams`,
    `length_penalty`: of the beam search; scores are divided by this power of the length.
    """

    direction: str = "en-de"
    merges: int = 10_000
    words: int | None = None
    ratio: float | None = None
    longest: int = 256
    buckets: tuple[int, ...] = ()
    limit: int | None = None
    beams: int = 5
    length_penalty: float = 1.0

    LEAST: ClassVar[dict[str, int]] = {"merges": 0, "words": 1, "longest": 2, "limit": 1}

    def __post_init__(self) -> None:
        for name, low in self.LEAST.items():
            at_least(name, getattr(self, name), low)
        if self.ratio is not None and not self.ratio >= 1:
            raise ValueError(f"option ratio is {self.ratio}, and needs at least 1, e.g. 1.5")
        check_buckets(self.buckets)
        Search(self.beams, self.length_penalty)  # refuses wrong values

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        source, _, target = self.direction.partition("-")
        return source, target

    @property
    def search(self) -> Search:
        """The beam search that the options describe."""
        return Search(self.beams, self.length_penalty)

    @property
    def limits(self) -> Limits:
        """The limits on training pairs; the last bucket is one, too."""
        last = self.buckets[-1] if self.buckets else self.longest
        return Limits(self.words, self.ratio, min(self.longest, last))


@dataclass(frozen=True, kw_only=True)
class PlainOptions(PairOptions):
    """What tasks on untokenised text take besides.

    `tokens`: "moses" splits words from punctuation as the papers do, "plain" leaves that to the subwords; `lower`:
    lower-case the text.
    """

    tokens: Literal["plain", "moses"] = "plain"
    lower: bool = False

    @property
    def form(self) -> Form:
        """The form of the text before it is split into subwords."""
        return Form(*self.languages, self.tokens, self.lower)


class Translation(Task):
    """A translation task: `input_ids`, `attention_mask` and `labels` are [B, bucket]; both sides end with </s>.

    The `size` of a batch counts padded tokens of one side, so short pairs come in many rows. Held-out batches also have
    `decoder_input_ids`, the labels shifted after <s>, so a model can predict the labels without being given them.
    """

    model: ClassVar[str] = "translation"
    metric: Metric = LOWER_CASED
    aliases: ClassVar[Mapping[str, str]] = {}
    """Second names of splits."""

    def _load(
        self, parts: Mapping[str, Part], form: Form, options: PairOptions, source: dict[str, Any], more: object = None
    ) -> None:
        """Prepare the text, or find it in the cache; `more` is what it depends on besides files and options."""
        if self.papers is not None:
            moses.sacremoses(f'task "{self.name}" is scored on Moses tokens and needs')  # now, not after training
        self.search, self._source = options.search, source
        wanted = Wanted(self.name, parts, form, options.merges, options.limits, options.limit)
        self._prepared = prepare(wanted, more)
        lengths = {split: pairs.lengths for split, pairs in self._prepared.pairs.items()}
        self._widths = options.buckets or choose_widths(lengths["train"], BUCKETS)
        longest = max(int(found.max()) for found in lengths.values())
        # Held-out pairs longer than any training pair get a shape of their own: nothing is truncated.
        beyond = (-(-longest // MULTIPLE) * MULTIPLE,) if longest > self._widths[-1] else ()
        self._buckets = Buckets((*self._widths, *beyond), lengths)

    @property
    @final
    def papers(self) -> PapersBleu | None:
        """The BLEU that papers report for this data, besides sacreBLEU; None if there are no papers."""
        return next((kind for kind, title in PAPERS.items() if title == self.metric.title), None)

    @property
    @final
    def shape(self) -> dict[str, int]:
        # Twice the longest pair: a translation may be longer than any reference.
        return {"vocab_size": self._prepared.codec.size, "max_length": 2 * self._buckets.widths[-1]}

    @property
    @final
    def length(self) -> int:
        """The mean padded length of the training pairs, which is what the device computes."""
        return self._buckets.mean_width

    @property
    @final
    def splits(self) -> tuple[str, ...]:
        return (*self._prepared.pairs, *self.aliases)

    @property
    @final
    def tests(self) -> tuple[str, ...]:
        return tuple(split for split in self._prepared.pairs if split not in ("train", "valid"))

    @property
    @final
    def codec(self) -> Codec:
        """Text to token ids and back, saved with the model."""
        return self._prepared.codec

    @final
    def save_with(self, folder: Path) -> None:
        self.codec.save(folder)

    def _named(self, split: str) -> str:
        """The prepared split of this name or alias."""
        check_split(self, split)
        return self.aliases.get(split, split)

    @final
    def text(self, split: str) -> Lines:
        """The lines of a held-out split, as in its files."""
        found = self._named(split)
        if found == "train":
            raise ValueError(f'task "{self.name}" keeps the text of its held-out splits only, not of train')
        return self._prepared.text(found)

    @final
    def batch(self, seed: int, step: int, size: int) -> Batch:
        sizes = [rows_of(size, width) for width in self._widths]
        return self._padded("train", *self._buckets.draw(sizes, seed, step))

    @final
    def batches(self, split: str, size: int) -> Iterator[Batch]:
        """Every pair once, bucket by bucket, in order within each; the last batch of a bucket may be smaller."""
        found = self._named(split)
        for rows, width in self._buckets.batches(found, lambda width: rows_of(max(size, width), width)):
            batch = self._padded(found, rows, width)
            yield {**batch, "decoder_input_ids": decoder_inputs(batch["labels"], START, PAD)}

    def _padded(self, split: str, rows: np.ndarray, width: int) -> Batch:
        pairs = self._prepared.pairs[split]
        source, mask = padded(*pairs.source, rows, width, PAD)
        target, _ = padded(*pairs.target, rows, width, IGNORED)
        return {
            "input_ids": torch.from_numpy(source),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)),
            "labels": torch.from_numpy(target),
        }

    @final
    def tokens(self, batch: Batch) -> int:
        """The number of target tokens."""
        return self.items(batch)

    @final
    def score(self, logits: Tensor, batch: Batch) -> dict[str, float]:
        """The sums of `score_tokens`; logits [B, T, V] align with the labels."""
        return score_tokens(logits, batch["labels"])

    @final
    def summary(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Loss in nats per subword, the accuracy of the likeliest one, and perplexity, all given the true prefix."""
        tokens = check_totals(self, totals, "tokens")
        loss = totals["nll"] / tokens
        # a float holds little more than e^700
        return {"loss": loss, "accuracy": totals["correct"] / tokens, PERPLEXITY.name: math.exp(min(loss, 700.0))}

    @final
    def translate(
        self, model: nn.Module, split: str, search: Search, precision: torch.dtype, progress: Progress | None = None
    ) -> tuple[list[str], list[Score]]:
        """A held-out split as the model translates it (in Moses tokens if it has them), and its scores."""
        lines, form = self.text(split), self.codec.form
        prepared = form.prepare_files(lines.source, form.source)
        found = decode_lines(cast(SplitstepForTranslation, model), self.codec, prepared, search, precision, progress)
        return found, score_lines(found, lines, form, self.papers)

    @final
    def free_run(
        self, model: nn.Module, split: str, precision: torch.dtype, progress: Progress | None = None
    ) -> FreeRun:
        """The split translated with the search of the options."""
        lines, scores = self.translate(model, split, self.search, precision, progress)
        return FreeRun(lines, [one._asdict() for one in scores], {one.key: one.value for one in scores})

    @final
    def same_tokens(self, folder: Path) -> bool:
        return self.codec.same_as(Codec.load(folder))

    @final
    def remarks(self) -> dict[str, dict[str, int]]:
        held = {split: counts for split, counts in self._prepared.counts.items() if split != "train"}
        kinds = {"left out as too long": "too_many_tokens", "also in train": "in_train"}
        found = {text: {split: c[name] for split, c in held.items() if c[name]} for text, name in kinds.items()}
        return {text: counts for text, counts in found.items() if counts}

    @final
    def describe(self) -> dict[str, Any]:
        prepared, form = self._prepared, self.codec.form
        return {
            "task": self.name,
            "source": self._source,
            "languages": [form.source, form.target],
            "tokens": form.tokens,
            "lower": form.lower,
            "vocab_size": prepared.codec.size,
            "pairs": prepared.counts,
            "buckets": self._buckets.describe(),
            "longest": {split: int(pairs.lengths.max()) for split, pairs in prepared.pairs.items()},
            "padding": {split: round(self._padding(split), 4) for split in prepared.pairs},
            "files": prepared.files,
            "sha256": {name: found for name, found in prepared.hashes.items() if name.endswith((".npy", TOKENIZER))},
        }

    def _padding(self, split: str) -> float:
        """The share of padding in both sides of a split's batches."""
        pairs = self._prepared.pairs[split]
        tokens = len(pairs.source.tokens) + len(pairs.target.tokens)
        return 1 - tokens / (2 * self._buckets.padded_tokens(split))
