"""What a step of distillation costs: `skl + mta` beside `skl`, and `sra` beside `ce`, in one run.

    python benchmarks/distil_cost.py --out results/distil/cost.json
    python benchmarks/distil_cost.py --count --batch 2 --rows 24 --out /tmp/cost.json  # calls and FLOPs: slow on a CPU
    python benchmarks/distil_cost.py --tiny --out /tmp/cost.json                       # a quick look, on any machine

Every way is a run of the recipe `distil` in bf16, with its teacher's cache: objective, optimizer and update are those
of `splitstep distil`. The teacher is a Llama of SmolLM2-135M's shape with random weights, on which the cost does not
depend, or that of `--teacher`. With one tokenizer the student has ten of its layers. With two tokenizers it has the
same shape, and a vocabulary of its own. The text is made here, with a log-normal number of words in an answer, or that
of `--text`. All ways of a pair see the same rows.

Updates are eager and, on a GPU, captured as well, side by side. Seconds of a step: with batches that are ready, and in
the loop, where a thread makes the next ones while the device works, as in training. Calls are those of PyTorch's
operators that compute something: views do not count. FLOPs are those of matrix products and attention, forward and
backward, what is computed again included. The ways take turns; a ratio is the median over rounds. Bars, in both modes:
`skl + mta` at most 1.20 times the time of `skl`; `sra` to `ce` at most 1.2 times the ratio of their FLOPs; memory at
most 1.15 times that of `skl` and `ce`. The file is written after each round.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from operator_calls import counted

from splitstep.distillation.objective import Distillation
from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp
from splitstep.text.files import read
from splitstep.training import load_recipe
from splitstep.training.directory import RunDirectory
from splitstep.training.objective import UpdateBatch, prefetched
from splitstep.training.processes import Processes
from splitstep.training.run import Run
from splitstep.training.update import Captured

BATCHES = 4  # that a way goes through
TIME_BAR, FLOP_BAR, MEMORY_BAR = 1.20, 1.2, 1.15
MEDIAN, SIGMA, LONGEST = 90, 0.7, 350  # words of an answer: log-normal, cut
SYLLABLES, WORDS = 150, 30_000  # of which words are made up, and how many words there are
ONE, TWO = "one tokenizer", "two tokenizers"
METHODS = {ONE: ("ce", "skl", "skl + mta"), TWO: ("ce", "uld", "sra")}
MODES = ("eager", "capture")
COMPARED = {ONE: ("skl", "skl + mta"), TWO: ("ce", "sra")}  # the base, and what is held against it
COUNTS = ("calls", "waits", "tflops")
ROWS = 2048  # of made-up text, from which tokenizers are trained
EOS = "<|endoftext|>"


class Shape(NamedTuple):
    """The teacher's size, the student's layers, and the two vocabularies."""

    layers: int = 30
    kept: int = 10
    width: int = 576
    heads: int = 9
    key_value_heads: int = 3
    ffn: int = 1536
    vocab_size: int = 49152
    other_vocab_size: int = 16384
    length: int = 512


TINY = Shape(6, 2, 32, 4, 2, 64, 2048, 1024, 256)


class Pair(NamedTuple):
    """A teacher, a student, and text, as a recipe names them; a folder for runs."""

    teacher: str
    student: str
    layers: int | None  # of the student that are kept
    text: str
    folder: Path


class Way(NamedTuple):
    """A run that is measured, its batches, and what is known of it."""

    pair: str
    method: str
    run: Run
    works: list[UpdateBatch]
    about: dict[str, Any]

    @property
    def name(self) -> str:
        return named(self.method, self.run.mode)

    def update(self, work: UpdateBatch) -> Any:
        return self.run.update(work, self.run.options.lr)

    def operators(self, work: UpdateBatch) -> Any:
        """An update by calls of operators, even if a graph makes it otherwise."""
        update = self.run.update
        return update.step(work.to(update.device)) if isinstance(update, Captured) else self.update(work)


def named(method: str, mode: str) -> str:
    return method if mode == "eager" else f"{method}, {mode}"


def made_up_rows(rows: int) -> Iterator[str]:
    """Instructions and answers of made-up words, some of them frequent, in sentences, as lines of JSON."""
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    syllables = ["".join(random.choice(letters, size)) for size in random.integers(1, 4, SYLLABLES)]
    words = ["".join(random.choice(syllables, size)) for size in random.integers(1, 5, WORDS)]

    def prose(count: int) -> str:
        chosen = [words[(n - 1) % WORDS] for n in random.zipf(1.3, count)]
        ends = random.choice([" ", " ", " ", " ", " ", " ", " ", ", ", ". ", "\n"], count)
        return "".join(word + end for word, end in zip(chosen, ends, strict=True)).strip() + "."

    for _ in range(rows):
        count = min(max(round(random.lognormal(np.log(MEDIAN), SIGMA)), 4), LONGEST)
        yield json.dumps({"instruction": prose(int(random.integers(5, 30))), "response": prose(count)}) + "\n"


def trained_tokenizer(text: str, size: int) -> Any:
    """A byte-level BPE of this text with at most so many tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    bytes_ = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[EOS], initial_alphabet=bytes_, show_progress=False)  # pyright: ignore[reportCallIssue]
    made.train_from_iterator(text.splitlines(), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=EOS)


def saved_llama(folder: Path, shape: Shape, layers: int, vocab_size: int, tokenizer: Any) -> str:
    """A Llama with random weights and its tokenizer in a folder."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocab_size, hidden_size=shape.width, intermediate_size=shape.ffn, num_hidden_layers=layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.key_value_heads, tie_word_embeddings=True,
        max_position_embeddings=2048, bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def make_pairs(shape: Shape, given: Any, folder: Path) -> dict[str, Pair]:
    """The two pairs, with what they need in a folder."""
    words = read(given.text).decode() if given.text else "".join(made_up_rows(max(given.rows, ROWS)))
    text = folder / "text.jsonl"
    text.write_text("".join(words.splitlines(keepends=True)[: given.rows]))
    teacher = given.teacher or saved_llama(
        folder / "teacher", shape, shape.layers, shape.vocab_size, trained_tokenizer(words, shape.vocab_size)
    )
    tokenizer = trained_tokenizer(words[: len(words) // 2], shape.other_vocab_size)
    other = saved_llama(folder / "other", shape, shape.kept, shape.other_vocab_size, tokenizer)
    return {
        ONE: Pair(teacher, teacher, shape.kept, str(text), folder),
        TWO: Pair(teacher, other, None, str(text), folder),
    }


def begun(pair: Pair, method: str, mode: str, batch: int, shape: Shape, folder: Path, device: torch.device) -> Run:
    """The run that `splitstep distil` would begin, with the cache of its method."""
    recipe = load_recipe(
        "distil",
        [
            f"start={pair.student}", f"data.train=[{pair.text}]", f"data.length={shape.length}",
            f"objective.teacher={pair.teacher}", f"objective.method={method}", f"objective.cache={folder / 'cache'}",
            f"train.batch={batch}", "train.precision=bfloat16", f"train.mode={mode}",
            *([] if pair.layers is None else [f"model.layers={pair.layers}"]),
        ],
    )  # fmt: skip
    directory = RunDirectory(folder / f"batch{batch}-{mode}")
    directory.claim(recipe)
    return Run(recipe, directory, recipe.load_task(None), Processes(0, 1, device))


def spans_of(run: Run) -> dict[str, dict[str, float]]:
    """Spans and pairs of spans in a training text, by kind, on average, and what the limit leaves out."""
    assert isinstance(run.source, Distillation)
    texts, found = run.source.texts, dict[str, dict[str, float]]()
    for (kind, limit), left_out in texts.left_out(run.source.needs.limits).items():
        counts = np.array([len(one[kind]) for one in texts.spans])
        kept = np.minimum(counts, limit)
        found[kind] = {
            "spans": float(counts.mean()), "most": int(counts.max()), "pairs": float((kept * (kept - 1) // 2).mean()),
            "limit": limit, "left_out": left_out,
        }  # fmt: skip
    return found


def shared_vocabulary(run: Run) -> int | None:
    """How many tokens the two models share, if a term needs them."""
    assert isinstance(run.source, Distillation)
    return None if run.source.vocabulary is None else len(run.source.vocabulary)


def counts(way: Way) -> dict[str, float]:
    """Calls of operators and FLOPs of a step, the mean over the batches."""
    found = [counted(partial(way.operators, work)) for work in way.works]
    calls, waits, flops = (sum(one) / BATCHES for one in zip(*found, strict=True))
    return dict(zip(COUNTS, (calls, waits, flops / 1e12), strict=True))


def settled(device: torch.device) -> float:
    """The time, after the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def ready(
    name: str,
    method: str,
    mode: str,
    pair: Pair,
    batch: int,
    shape: Shape,
    folder: Path,
    device: torch.device,
    known: dict[str, float] | None,
) -> Way:
    """A way after its first updates, with its highest memory and its counts, unless they are known from another mode.
    The cache is written before."""
    cuda, begin = device.type == "cuda", settled(device)
    gc.collect()
    before = torch.cuda.memory_allocated() if cuda else 0
    run = begun(pair, method, mode, batch, shape, folder, device)
    gc.collect()  # the teacher, after it has written its cache
    start = time.perf_counter()
    works = [run.work(step) for step in range(BATCHES)]
    making = (time.perf_counter() - start) / BATCHES
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    way = Way(name, method, run, works, {})
    losses = [float(way.update(work)[0]) for work in works]
    memory = (torch.cuda.max_memory_allocated() - before) / 2**30 if cuda else None
    about = {
        "parameters": sum(p.numel() for p in run.model.parameters()), "mode": run.mode, "loss": losses[-1],
        "tokens": [list(work.parts[0]["input_ids"].shape) for work in works], "batch_seconds": making,
        "memory_gib": memory, "shared_vocabulary": shared_vocabulary(run), "spans": spans_of(run),
        **(known or counts(way)),
        "ready_seconds": settled(device) - begin,
    }  # fmt: skip
    print(f"{name}, batch {batch}, {way.name}: ready in {about['ready_seconds']:.0f} s", file=sys.stderr, flush=True)
    return way._replace(about=about)


def turn(way: Way, count: int, device: torch.device) -> float:
    """Seconds of a step with batches that are ready, after one that does not count."""
    way.update(way.works[0])
    begin = settled(device)
    for number in range(count):
        way.update(way.works[number % BATCHES])
    return (settled(device) - begin) / count


def loop_turn(way: Way, count: int, device: torch.device) -> float:
    """Seconds of a step in the loop, which makes the same batches in a thread, after one that does not count."""
    with prefetched(lambda step: way.run.work(step % BATCHES), 0, count + 1) as works:
        way.update(next(works))
        begin = settled(device)
        for work in works:
            way.update(work)
        return (settled(device) - begin) / count


Times = dict[str, dict[str, list[float]]]  # seconds of a step, by way and kind of turn, round by round
TURNS = {"seconds": turn, "loop_seconds": loop_turn}


def rows_of(ways: list[Way], times: Times, batch: int) -> list[dict[str, Any]]:
    """The table: a row for each way."""
    found = {way.name: {kind: statistics.median(x) for kind, x in times[way.name].items() if x} for way in ways}
    return [{"pair": way.pair, "method": way.method, "batch": batch, **found[way.name], **way.about} for way in ways]


def compared(ways: list[Way], times: Times, name: str, batch: int) -> list[dict[str, Any]]:
    """The ratios of a pair: in each mode those with bars, then captured updates to eager ones."""
    known = {way.name: way for way in ways}
    base, other = COMPARED[name]
    pairs = [(named(other, mode), named(base, mode)) for mode in MODES]
    pairs += [(named(method, mode), method) for method in METHODS[name] for mode in MODES[1:]]
    found = [(known[one], known[to]) for one, to in pairs if {one, to} <= known.keys()]
    return [ratio for one, to in found for ratio in ratios_of(one, to, times, batch)]


def ratios_of(other: Way, base: Way, times: Times, batch: int) -> Iterator[dict[str, Any]]:
    """All ratios of two ways; methods have bars, modes have none."""
    flops = other.about["tflops"] / base.about["tflops"]
    bars = other.method != base.method
    calls = other.about["calls"] / base.about["calls"]
    found: dict[str, tuple[float, float | None]] = {"FLOPs": (flops, None), "calls": (calls, None)}
    for kind in TURNS:
        pairs = list(zip(times[other.name][kind], times[base.name][kind], strict=True))
        if pairs:
            bar = TIME_BAR if other.pair == ONE else FLOP_BAR * flops
            found[kind] = (statistics.median(a / b for a, b in pairs), bar if bars else None)
    if base.about["memory_gib"]:
        found["memory"] = (other.about["memory_gib"] / base.about["memory_gib"], MEMORY_BAR if bars else None)
    about = {"pair": other.pair, "ratio": f"{other.name} / {base.name}", "batch": batch}
    rounds = {kind: len(times[base.name][kind]) for kind in TURNS}
    for what, (value, bar) in found.items():
        yield {**about, "of": what, "value": value, "bar": bar, **({"rounds": rounds[what]} if what in rounds else {})}


def measure(
    name: str, pair: Pair, batch: int, shape: Shape, given: Any, device: torch.device, keep: Callable[..., None]
) -> None:
    """All methods of a pair with batches of this size; `keep` gets the rows and the ratios after each round. Batches
    of another size find the teacher's caches again."""
    modes = MODES if device.type == "cuda" else MODES[:1]
    ways: list[Way] = []
    for method, mode in product(COMPARED[name] if given.compared else METHODS[name], modes):
        folder = pair.folder / f"{name}, {method}".replace(" ", "")
        known = next(({key: way.about[key] for key in COUNTS} for way in ways if way.method == method), None)
        ways.append(ready(name, method, mode, pair, batch, shape, folder, device, known))
    times: Times = {way.name: {kind: [] for kind in TURNS} for way in ways}
    keep(rows_of(ways, times, batch), compared(ways, times, name, batch))
    for number in range(0 if given.count else given.rounds):
        start = time.monotonic()
        for way in ways if number % 2 == 0 else ways[::-1]:
            for kind, one in TURNS.items():
                times[way.name][kind].append(one(way, given.updates, device))
        keep(rows_of(ways, times, batch), compared(ways, times, name, batch))
        if given.end - time.monotonic() < time.monotonic() - start:
            break


def table(rows: list[dict[str, Any]]) -> str:
    """The table as text."""
    head = (
        f"{'':14} {'method':18} {'batch':>5} {'ms a step':>9} {'in the loop':>11} {'ms a batch':>10} {'calls':>6} "
        f"{'waits':>5} {'TFLOPs':>7} {'GiB':>6}"
    )
    lines = [
        f"{row['pair']:14} {named(row['method'], row['mode']):18} {row['batch']:>5} "
        f"{1e3 * row.get('seconds', 0):>9.1f} {1e3 * row.get('loop_seconds', 0):>11.1f} "
        f"{1e3 * row['batch_seconds']:>10.1f} {row['calls']:>6.0f} "
        f"{row['waits']:>5.0f} {row['tflops']:>7.3f} {row['memory_gib'] or 0:>6.2f}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def told(rows: list[dict[str, Any]], ratios: list[dict[str, Any]]) -> Iterator[str]:
    """The ratios and the spans, a line each."""
    for one in ratios:
        bar = "" if one["bar"] is None else f", bar {one['bar']:.3f}: {'holds' if held(one) else 'does not hold'}"
        yield f"{one['ratio']}, batch {one['batch']}, {one['of']}: {one['value']:.3f}{bar}"
    for row in rows:
        for kind, one in row["spans"].items():
            yield (
                f"{row['method']}, batch {row['batch']}, {kind}: {one['spans']:.0f} spans in a text and "
                f"{one['pairs']:,.0f} pairs; at most {one['limit']} spans, {one['left_out']} left out"
            )


def held(ratio: dict[str, Any]) -> bool:
    return ratio["bar"] is None or ratio["value"] <= ratio["bar"]


def holds(ratios: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether each ratio is within all of its bars, at each batch size."""
    found: dict[str, bool] = {}
    for one in ratios:
        name = f"{one['ratio']}, batch {one['batch']}"
        found[name] = found.get(name, True) and held(one)
    return found


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/distil/cost.json"))
    parser.add_argument("--batch", type=int, nargs="+", help="rows of a batch; several sizes one after the other")
    parser.add_argument("--teacher", help="a causal model with a tokenizer, in place of one with random weights")
    parser.add_argument("--text", type=Path, help="JSON lines with instruction and response, in place of made-up ones")
    parser.add_argument("--rows", type=int, default=256, help="of text, of which batches are made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=12, help=f"of a turn; a multiple of {BATCHES}")
    parser.add_argument("--seconds", type=float, default=240, help="when to be done; further rounds are left out")
    parser.add_argument(
        "--compared", action="store_true", help="only methods with bars, and those they are held against"
    )
    parser.add_argument("--count", action="store_true", help="calls and FLOPs only, also without a GPU")
    parser.add_argument("--tiny", action="store_true", help="tiny networks, also without a GPU")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    if not torch.cuda.is_available() and not (given.tiny or given.count):
        print("This benchmark needs a CUDA device; --tiny and --count run anywhere.", file=sys.stderr)
        return 2
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    shape, sizes = TINY if given.tiny else Shape(), given.batch or ([4] if given.tiny else [16, 32])
    document: dict[str, Any] = {
        "command": " ".join(["python", *sys.argv]), **stamp(), "shape": shape._asdict(), "rows": [], "ratios": [],
        "card": torch.cuda.get_device_name() if device.type == "cuda" else "CPU", "teacher": given.teacher,
        "text": given.text.name if given.text else {"words": [MEDIAN, SIGMA, LONGEST]}, "text_rows": given.rows,
        "rounds": given.rounds, "updates": given.updates,
    }  # fmt: skip
    given.out.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        pairs = make_pairs(shape, given, Path(place))
        for number, (batch, name) in enumerate(product(sizes, pairs)):
            left = len(sizes) * len(pairs) - number
            given.end = time.monotonic() + (start + given.seconds - time.monotonic()) / left
            rows, ratios = document["rows"], document["ratios"]

            def keep(more: list[Any], compared: list[Any], rows: Any = rows, ratios: Any = ratios) -> None:
                document.update(rows=rows + more, ratios=ratios + compared, holds=holds(ratios + compared))
                write_atomically(given.out, json.dumps(document, indent=1) + "\n")

            measure(name, pairs[name], batch, shape, given, device, keep)
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
    print(table(document["rows"]))
    print("\n".join(told(document["rows"], document["ratios"])))
    return 0 if all(document["holds"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
