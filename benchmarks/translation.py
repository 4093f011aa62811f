"""The speed of translators: in real training, and beside Hugging Face's Marian in training and in decoding.

    python benchmarks/translation.py --out results/translation/speed

(a) Training of a small model (4+4 layers, width 256) by the package's own loop, data thread included, a CUDA graph per
batch shape: updates per second of Lie-Trotter and Macaron. (b) Training of the IWSLT14 shape (6+6 layers, width 512)
against Hugging Face's Marian of the same sizes: the same batches, precision, dropouts, loss, optimizer and mode; the
models take turns. (c) Decoding of 1,000 sources with five beams by `generate`, equally many tokens for both, other
sources in every round; the weights are random. If PyTorch prefers cuDNN's attention, it makes a plan for each new
shape: the package's `generate` does not use it, and Marian is measured with and without it. The text is Multi30k's if
the data folder has it, else made up with similar lengths. A model that fails in a mode is a row with the reason.
`--small` is a smoke test that runs anywhere.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from splitstep.fields.attention import unplanned_attention
from splitstep.kernels.dropout import kernel
from splitstep.kernels.loss import decoder_inputs, kernels
from splitstep.models import SplitstepForTranslation, TranslationConfig
from splitstep.models.cost import twin
from splitstep.recipes import FOLDER
from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp
from splitstep.tasks import task as load_task
from splitstep.tasks.pairs.codec import END, PAD, START
from splitstep.tasks.pairs.search import groups
from splitstep.tasks.pairs.translation import Translation
from splitstep.training import RunDirectory, TrainOptions, load_recipe
from splitstep.training.loop import fit, open_journal
from splitstep.training.objective import Learner, UpdateBatch, work_for
from splitstep.training.processes import Processes
from splitstep.training.run import Run
from splitstep.training.update import choose_mode, choose_precision, make_optimizer, make_update
from splitstep.training.weights import spread

RECIPES = FOLDER
BARS = {"lie": 150.0, "macaron": 130.0}  # updates per second in (a)
TRAINED = {"layers": 4, "decoder_layers": 4, "width": 256, "heads": 4, "ffn": 512, "embedding_scale": 16}
PEER = "Marian"
PEER_WITHOUT = "Marian without cuDNN"
BEAMS = 5


class Size(NamedTuple):
    """How much to do: the whole benchmark, or a smoke test."""

    pairs: int
    steps: int  # of (a)
    shape: dict[str, int]  # overrides that make the recipe's models smaller
    modes: tuple[str, ...]
    rounds: int
    updates: int  # in a round
    sources: int
    batch_tokens: tuple[int, ...]  # of decoding
    new_tokens: int  # at most, per source


WHOLE = Size(29_000, 1500, {}, ("capture", "eager", "compile"), 5, 20, 1000, (16384, 4096), 60)
SMALL = Size(
    400, 12, {"layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "ffn": 32}, ("capture", "eager"), 1, 2, 8,
    (128,), 4,
)  # fmt: skip


class Updates(NamedTuple):
    """Part (a): real training of one scheme."""

    scheme: str
    mode: str
    precision: str
    updates: int
    shapes: int
    updates_per_second: float
    tokens_per_second: float  # of the target, padding not counted
    bar: float
    parameters: int


class Rate(NamedTuple):
    """A row of parts (b) and (c): one model in one mode, as a median over rounds, and over Marian's; or why not."""

    part: str
    mode: str
    model: str
    parameters: int
    per_second: float | None  # target tokens in training, sources in decoding
    spread: float | None  # of the rounds, over the median
    ratio: float | None
    first_seconds: float | None  # of the first update of all shapes, or of the first decoding
    failed: str | None = None


def made_up_text(folder: Path, pairs: int) -> str:
    """Two files of made-up words, as long as Multi30k's captions; their names, separated by a comma."""
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(random.choice(letters, size)) for size in random.integers(2, 9, 20_000)])
    chances = 1 / (np.arange(len(words)) + 10.0)
    chances /= chances.sum()
    long = np.clip(random.lognormal(np.log(12), 0.3, pairs).round(), 4, 38).astype(int)
    other = np.clip(long + random.normal(-0.7, 2, pairs).round(), 4, 38).astype(int)
    for name, lengths in (("source", long), ("target", other)):
        drawn = iter(random.choice(words, int(lengths.sum()), p=chances))
        lines = (" ".join(next(drawn) for _ in range(length)) for length in lengths)
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return f"{folder / 'source'},{folder / 'target'}"


def data_options(folder: Path, size: Size) -> tuple[str, list[str]]:
    """The recipe and the overrides that name the text."""
    if size is not SMALL:
        try:
            load_task("multi30k", {"direction": "en-de"})
            return "multi30k-en-de.yaml", []
        except ValueError:
            pass
    merges = [] if size is not SMALL else ["data.merges=200"]
    return "translate.yaml", [f"data.train={made_up_text(folder, size.pairs)}", *merges]


def train(scheme: str, recipe: str, overrides: Sequence[str], folder: Path, size: Size, world: Processes) -> Updates:
    """Part (a) for one scheme, with everything that `splitstep train` does."""
    shape = [f"model.{key}={value}" for key, value in (TRAINED | size.shape).items()]
    every = [f"train.{name}={size.steps}" for name in ("steps", "evaluate_every")]
    more = ["train.keep=best", "train.best=loss", "train.batch=4096", *every]  # no translations are scored
    given = load_recipe(str(RECIPES / recipe), [f"scheme={scheme}", *overrides, *shape, *more])
    directory = RunDirectory(folder / scheme)
    directory.claim(given)
    run = Run(given, directory, given.load_task(), world)
    fit(run, open_journal(run, True, False, ExitStack()))
    times = run.clock.read()
    return Updates(
        scheme, run.mode, str(run.precision).removeprefix("torch."), size.steps, len(run.shapes),
        (size.steps - len(run.shapes)) / times.training_seconds, times.rate or 0.0, BARS[scheme],
        sum(p.numel() for p in run.model.parameters()),
    )  # fmt: skip


class Loss(NamedTuple):
    """What an update asks of a model's output."""

    loss: Tensor


class Marian(nn.Module):
    """Marian of a config's sizes, called as the package's own models are."""

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        assert isinstance(config.ffn, int)
        self.smoothing = config.label_smoothing
        self.model = MarianMTModel(
            MarianConfig(
                vocab_size=config.vocab_size, d_model=config.width, max_position_embeddings=config.max_positions,
                encoder_layers=config.layers, decoder_layers=config.decoder_layers,
                encoder_attention_heads=config.heads, decoder_attention_heads=config.heads,
                encoder_ffn_dim=config.ffn, decoder_ffn_dim=config.ffn, activation_function="relu",
                dropout=config.dropout, attention_dropout=config.attention_dropout,
                activation_dropout=config.activation_dropout, scale_embedding=True,
                share_encoder_decoder_embeddings=True, pad_token_id=PAD, bos_token_id=START, eos_token_id=END,
                decoder_start_token_id=START, forced_eos_token_id=None,
                attn_implementation="sdpa",  # pyright: ignore[reportCallIssue]
            )
        )  # fmt: skip

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        dropout_seed: Tensor,
        num_items_in_batch: Tensor,
    ) -> Loss:
        """The same loss; dropout draws from PyTorch's own generator."""
        given = decoder_inputs(labels, START, PAD)
        out = self.model(input_ids, attention_mask=attention_mask, decoder_input_ids=given, use_cache=False)
        total = functional.cross_entropy(
            out.logits.flatten(0, 1).float(), labels.flatten(), reduction="sum", label_smoothing=self.smoothing
        )
        return Loss(total / num_items_in_batch)


def config_for(task: Translation, size: Size) -> TranslationConfig:
    """The IWSLT14 recipe's network for this text."""
    import yaml

    model: dict[str, Any] = yaml.safe_load((RECIPES / "iwslt14-de-en.yaml").read_text())["model"]
    shape = {"vocab_size": task.shape["vocab_size"], "max_positions": task.shape["max_length"]}
    return TranslationConfig(**{**model, **size.shape, **shape})


def contenders(config: TranslationConfig) -> dict[str, Callable[[], nn.Module]]:
    """The models by name; Marian is second, so a short run still has a ratio."""
    return {
        "lie": lambda: SplitstepForTranslation(config),
        PEER: lambda: Marian(config),
        "macaron": lambda: SplitstepForTranslation(twin(config, "macaron")),  # pyright: ignore[reportArgumentType]
    }


def parameters_of(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def reason(error: Exception) -> str:
    """The first line of what went wrong."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]


class Turn(NamedTuple):
    """A model that is ready, what one round of it does, and how much that is."""

    parameters: int
    round: Callable[[], None]
    amount: float
    first_seconds: float


def seconds(act: Callable[[], Any], world: Processes) -> float:
    world.synchronise()
    begun = time.perf_counter()
    act()
    world.synchronise()
    return time.perf_counter() - begun


def side_by_side(
    part: str, mode: str, makers: dict[str, Callable[[], Turn]], rounds: int, world: Processes, until: float
) -> list[Rate]:
    """Time all models that are ready in time, in turns; medians, and ratios to Marian."""
    turns, rows = dict[str, Turn](), list[Rate]()
    for name, make in makers.items():
        if time.monotonic() > until:
            rows.append(Rate(part, mode, name, 0, None, None, None, None, "left out: no time was left"))
            continue
        try:
            turns[name] = make()
        except Exception as error:  # a peer's failure is a result
            rows.append(Rate(part, mode, name, 0, None, None, None, None, reason(error)))
    times = {name: list[float]() for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            times[name].append(seconds(turn.round, world))
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, turn in turns.items():
        rate = turn.amount / medians[name]
        peer = turns[PEER].amount / medians[PEER] if PEER in turns else None
        spread_ = (max(times[name]) - min(times[name])) / medians[name]
        ratio = None if peer is None else rate / peer
        rows.append(Rate(part, mode, name, turn.parameters, rate, spread_, ratio, turn.first_seconds))
    for row in rows:
        print(shown(row), flush=True)
    return rows


def training_turn(
    build: Callable[[], nn.Module], mode: str, works: Sequence[UpdateBatch], updates: int, world: Processes
) -> Turn:
    """A model in training that has seen every batch shape once."""
    torch.manual_seed(0)
    choose_mode(mode, world)
    model = build().to(world.device).train()
    options = TrainOptions(steps=1000, lr=1e-4, clip=0.0)
    optimizer, precision = make_optimizer(model, options, world.device), choose_precision("auto", world.device)
    learner = Learner(model)
    update = make_update(learner, spread(learner, "none", world), optimizer, options, precision, mode, world)

    def once(count: int) -> None:
        for number in range(count):
            update(works[number % len(works)], 1e-4)

    first = seconds(lambda: once(len(works)), world)
    tokens = sum(works[number % len(works)].tokens for number in range(updates))
    return Turn(parameters_of(model), lambda: once(updates), tokens, first)


def works_for(task: Translation, mode: str, count: int, world: Processes) -> list[UpdateBatch]:
    """Batches of all shapes, or of the commonest one if each shape would be compiled by itself."""
    options = TrainOptions(steps=1000, batch=4096)
    works = [work_for(task, options, step, world).to(world.device) for step in range(4 * count)]
    if "compile" in mode:
        [(commonest, _)] = Counter(work.shape for work in works).most_common(1)
        works = [work for work in works if work.shape == commonest]
    return works[:count]


def decoding_turn(
    build: Callable[[], nn.Module],
    attention: Callable[[], AbstractContextManager[None]],
    portions: Sequence[Sequence[Sequence[int]]],
    tokens: int,
    most: int,
    world: Processes,
) -> Turn:
    """A model that decodes a portion of sources, in batches of about `tokens`, to as many new tokens as a source has;
    in every round the next portion."""
    torch.manual_seed(0)
    model = build().to(world.device).eval()
    decoder: Any = model.model if isinstance(model, Marian) else model
    precision = choose_precision("auto", world.device)
    left = iter(portions)

    @torch.no_grad()
    def decode() -> None:
        sources = next(left)
        for rows in groups([len(ids) for ids in sources], range(len(sources)), tokens):
            ids, mask = padded([sources[row] for row in rows], world.device)
            new = min(ids.shape[1], most)
            with (
                attention(),
                torch.autocast(world.device.type, precision, enabled=precision != torch.float32),
            ):
                found = decoder.generate(
                    ids, attention_mask=mask, num_beams=BEAMS, do_sample=False, min_new_tokens=new, max_new_tokens=new,
                    eos_token_id=END, pad_token_id=PAD,
                )  # fmt: skip
            assert found.shape == (len(ids), new + 1), found.shape

    return Turn(parameters_of(model), decode, len(portions[0]), seconds(decode, world))


def padded(sources: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    width = max(map(len, sources))
    ids = torch.tensor([[*source, *[PAD] * (width - len(source))] for source in sources], device=device)
    return ids, (ids != PAD).long()


def sources_of(task: Translation, count: int) -> list[list[int]]:
    """The first sources of the training text."""
    side = task.prepared.pairs["train"].source
    return [side.tokens[side.offsets[row] : side.offsets[row + 1]].tolist() for row in range(count)]


def shown(row: Rate) -> str:
    head = f"{row.part:<9} {row.mode:<16} {row.model:<20}"
    if row.per_second is None:
        return f"{head} failed: {row.failed}"
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    return (
        f"{head} {row.per_second:>12,.1f} {ratio:>6} {row.spread or 0:>7.3f} {row.first_seconds or 0:>8.1f} "
        f"{row.parameters:>12,}"
    )


def table(updates: Sequence[Updates], rates: Sequence[Rate]) -> str:
    """All results as text."""
    lines = [
        f"real training, {one.scheme}: {one.updates_per_second:.1f} updates/s (bar {one.bar:.0f}), {one.mode}, "
        f"{one.precision}, {one.shapes} shapes, {one.tokens_per_second:,.0f} tokens/s, {one.parameters:,} parameters"
        for one in updates
    ]
    head = (
        f"{'part':<9} {'mode':<16} {'model':<20} {'per second':>12} {'ratio':>6} {'spread':>7} {'first s':>8} "
        f"{'parameters':>12}"
    )
    return "\n".join([*lines, head, *map(shown, rates)])


def passed(updates: Sequence[Updates], rates: Sequence[Rate]) -> bool:
    """Whether the bars are met: updates per second, and never slower than Marian except in eager training.

    Eager training is limited by launches, and not needed: a captured update is several times as fast.
    """
    ratios = [
        row.ratio
        for row in rates
        if row.model not in (PEER, PEER_WITHOUT) and row.mode != "eager" and row.ratio is not None
    ]
    return all(one.updates_per_second >= one.bar for one in updates) and bool(ratios) and min(ratios) >= 1


@dataclass
class Results:
    """What was measured so far, written again after every part."""

    out: Path
    device: torch.device
    begun: float
    text: str
    updates: list[Updates] = field(default_factory=list)
    rates: list[Rate] = field(default_factory=list)

    def keep(self) -> None:
        document = {
            "command": " ".join(["python", "benchmarks/translation.py", *sys.argv[1:]]),
            "device": torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu",
            **stamp(),
            "text": self.text,
            "fused_dropout": kernel(self.device.type) is not None,
            "fused_loss": kernels(self.device.type) is not None,
            "wall_seconds": round(time.monotonic() - self.begun, 1),
            "bars": BARS,
            "updates": [one._asdict() for one in self.updates],
            "rates": [one._asdict() for one in self.rates],
        }
        write_atomically(self.out / "result.json", json.dumps(document, indent=1) + "\n")


def time_real_training(
    recipe: str, overrides: Sequence[str], folder: Path, size: Size, world: Processes, results: Results
) -> None:
    """Part (a)."""
    for scheme in BARS:
        results.updates.append(train(scheme, recipe, overrides, folder, size, world))
        print(f"real training, {scheme}: {results.updates[-1].updates_per_second:.1f} updates/s", flush=True)
        results.keep()


def time_decoding(task: Translation, size: Size, world: Processes, until: float, results: Results) -> None:
    """Part (c)."""
    models = contenders(config_for(task, size))
    models |= {PEER_WITHOUT: models[PEER]}
    rounds = max(1, size.rounds - 2)
    sources = sources_of(task, (rounds + 1) * size.sources)
    portions = [sources[first : first + size.sources] for first in range(0, len(sources), size.sources)]
    for tokens in size.batch_tokens:
        makers = {
            name: partial(
                decoding_turn,
                build,
                unplanned_attention if name == PEER_WITHOUT else nullcontext,
                portions,
                tokens,
                size.new_tokens,
                world,
            )
            for name, build in models.items()
        }
        results.rates += side_by_side("decoding", f"{tokens} tokens", makers, rounds, world, until)
        results.keep()


def time_training(
    task: Translation, size: Size, modes: Sequence[str], world: Processes, until: float, results: Results
) -> None:
    """Part (b) in some modes."""
    models = contenders(config_for(task, size))
    for mode in modes:
        works = works_for(task, mode, size.updates, world)
        makers = {
            name: partial(training_turn, build, mode, works, size.updates, world) for name, build in models.items()
        }
        results.rates += side_by_side("training", mode, makers, size.rounds, world, until)
        torch._dynamo.reset()
        results.keep()


def asked_for() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--small", action="store_true", help="run a smoke test, also on a CPU")
    parser.add_argument("--minutes", type=float, default=4.5, help="begin nothing new after this many")
    return parser.parse_args()


def main() -> int:
    options = asked_for()
    if not options.small and not torch.cuda.is_available():
        print("Error: benchmarks/translation.py needs a CUDA device, or --small.", file=sys.stderr)
        return 2
    size, begun = SMALL if options.small else WHOLE, time.monotonic()
    until = begun + 60 * options.minutes
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    world = Processes(0, 1, device)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        recipe, overrides = data_options(Path(scratch), size)
        results = Results(options.out, device, begun, "made up" if overrides else "Multi30k")
        time_real_training(recipe, overrides, Path(scratch), size, world, results)
        task: Any = load_recipe(str(RECIPES / recipe), overrides).load_task()
    # Compiling is slow, so the other modes come first.
    time_training(task, size, size.modes[:1], world, until, results)
    time_decoding(task, size, world, until, results)
    time_training(task, size, size.modes[1:], world, until, results)
    print(table(results.updates, results.rates))
    return 0 if options.small or passed(results.updates, results.rates) else 1


if __name__ == "__main__":
    sys.exit(main())
