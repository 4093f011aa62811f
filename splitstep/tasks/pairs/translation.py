"""Translation: pairs of token sequences in batches of a few shapes, each with about as many tokens."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np

from ...text import moses
from ...text.lines import Lines
from ...text.tokenizers import TOKENIZER
from ..batching import MULTIPLE, Buckets, Chosen, choose_widths
from ..measures import Measure, Metric, perplexity_figures, score_tokens
from ..task import IGNORED, Arrays, Batch, Data, FreeRun, Task, check_split
from .codec import PAD, START, Codec, Progress, Search
from .prepared import PairOptions, prepare
from .scores import PAPERS, PapersBleu, Score
from .scores import score as score_lines

if TYPE_CHECKING:
    import torch
    from torch import nn

EXACT_MATCH = Metric("exact_match", True, "{:.2f}", "exact match, %", 0.0, 100.0)


def measure_of(metric: Metric) -> Measure:
    """Tokens are scored given the true prefix; the metric is a figure of whole translations."""
    return Measure(metric, score_tokens, perplexity_figures, "tokens")


LOWER_CASED, COMPOUNDS = (
    measure_of(Metric("bleu", True, "{:.2f}", PAPERS[kind], 0.0, 100.0)) for kind in ("lower-cased", "compounds")
)
SACREBLEU = measure_of(Metric("sacrebleu", True, "{:.2f}", "sacreBLEU", 0.0, 100.0))
EXACT = measure_of(EXACT_MATCH)
Direction = Literal["en-de", "de-en"]
BUCKETS = 5


@final
class Translation(Task):
    """A translation task: `input_ids`, `attention_mask` and `labels` are [B, bucket]; both sides end with </s>.

    The `size` of a batch counts padded tokens of one side, so short pairs come in many rows. Held-out batches also have
    `decoder_input_ids`, the labels shifted after <s>, so a model can predict the labels without being given them.

    Of the data, splits are `Part`s, and the reader is the `TextForm` of their text. `cached`: what prepared text
    depends on besides files and options; `aliases`: second names of splits.
    """

    model: ClassVar[str] = "translation"

    def __init__(self, name: str, options: PairOptions, data: Data) -> None:
        self.name, self.options, self.data, self.search = name, options, data, options.search
        self.measure = data.measure or LOWER_CASED
        if self.papers is not None:
            moses.sacremoses(f'task "{name}" is scored on Moses tokens and needs')  # now, not after training
        self.aliases: Mapping[str, str] = data.more.get("aliases", {})
        self.prepared = prepare(name, options, data)
        self.splits = (*self.prepared.pairs, *self.aliases)
        lengths = {split: pairs.lengths for split, pairs in self.prepared.pairs.items()}
        widths = options.buckets or choose_widths(lengths["train"], BUCKETS)
        longest = max(int(found.max()) for found in lengths.values())
        # Held-out pairs longer than any training pair get a shape of their own: nothing is truncated.
        beyond = (-(-longest // MULTIPLE) * MULTIPLE,) if longest > widths[-1] else ()
        self.batching = self.buckets = Buckets((*widths, *beyond), lengths, len(widths), in_tokens=True)

    @property
    def papers(self) -> PapersBleu | None:
        """The BLEU that papers report for this data, besides sacreBLEU; None if there are no papers."""
        return next((kind for kind, title in PAPERS.items() if title == self.metric.title), None)

    @property
    def shape(self) -> dict[str, int]:
        # Twice the longest pair: a translation may be longer than any reference.
        return {"vocab_size": self.codec.size, "max_length": 2 * self.buckets.widths[-1]}

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(split for split in self.prepared.pairs if split not in ("train", "valid"))

    @property
    def codec(self) -> Codec:
        """Text to token ids and back, saved with the model."""
        return self.prepared.codec

    def save_with(self, folder: Path) -> None:
        self.codec.save(folder)

    def named(self, split: str) -> str:
        return self.aliases.get(split, split)

    def text(self, split: str) -> Lines:
        """The lines of a held-out split, as in its files."""
        check_split(self, split)
        if self.named(split) == "train":
            raise ValueError(f'task "{self.name}" keeps the text of its held-out splits only, not of train')
        return self.prepared.text(self.named(split))

    def collate(self, chosen: Chosen) -> Arrays:
        pairs = self.prepared.pairs[chosen.split]
        source, mask = pairs.source.padded(chosen.rows, chosen.width, PAD)
        labels, _ = pairs.target.padded(chosen.rows, chosen.width, IGNORED)
        found = {"input_ids": source, "attention_mask": mask.astype(np.int64), "labels": labels}
        if chosen.seed is not None:
            return found
        before = np.where(labels == IGNORED, PAD, labels)[:, :-1]
        return {**found, "decoder_input_ids": np.insert(before, 0, START, axis=1)}

    def tokens(self, batch: Batch) -> int:
        """The number of target tokens."""
        return self.items(batch)

    def translate(
        self, model: "nn.Module", split: str, search: Search, precision: "torch.dtype", progress: Progress | None = None
    ) -> tuple[list[str], list[Score]]:
        """A held-out split as the model translates it (in Moses tokens if it has them), and its scores."""
        from .search import decode_lines

        lines, form = self.text(split), self.codec.form
        prepared = form.prepare_files(lines.source, form.source)
        found = decode_lines(model, self.codec, prepared, search, precision, progress)  # pyright: ignore[reportArgumentType]
        return found, score_lines(found, lines, form, self.papers)

    def free_run(
        self, model: "nn.Module", split: str, precision: "torch.dtype",
        progress: Progress | None = None,
    ) -> FreeRun:  # fmt: skip
        """The split translated with the search of the options."""
        lines, scores = self.translate(model, split, self.search, precision, progress)
        return FreeRun(lines, [one._asdict() for one in scores], {one.key: one.value for one in scores})

    def same_tokens(self, folder: Path) -> bool:
        other = Codec.load(folder)
        return self.codec.form == other.form and self.codec.tokenizer.to_str() == other.tokenizer.to_str()

    def oddities(self) -> dict[str, dict[str, int]]:
        held = {split: counts for split, counts in self.prepared.counts.items() if split != "train"}
        kinds = {"left out as too long": "too_many_tokens", "also in train": "in_train"}
        return {what: {split: counts[name] for split, counts in held.items()} for what, name in kinds.items()}

    def describe(self) -> dict[str, Any]:
        prepared, form, padding = self.prepared, self.codec.form, dict[str, float]()
        for split, pairs in prepared.pairs.items():  # in both sides of its batches
            tokens = len(pairs.source.tokens) + len(pairs.target.tokens)
            padding[split] = round(1 - tokens / (2 * self.buckets.padded_tokens(split)), 4)
        return {
            "task": self.name,
            "source": self.data.source,
            "languages": [form.source, form.target],
            "tokens": form.tokens,
            "lower": form.lower,
            "vocab_size": prepared.codec.size,
            "pairs": prepared.counts,
            "buckets": self.buckets.describe(),
            "longest": {split: int(pairs.lengths.max()) for split, pairs in prepared.pairs.items()},
            "padding": padding,
            "files": prepared.files,
            "sha256": {name: found for name, found in prepared.hashes.items() if name.endswith((".npy", TOKENIZER))},
        }
