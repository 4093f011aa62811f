"""The contract: what every model promises, whatever fields it is made of, and how far it is from keeping it.

Each promise is a function of a `Trial`, a small model, and returns a figure, 0 at best: how far logits move that should
not, or what its docstring says. A letter of another package, or of a file, is tried once in a process, when a model
first has it, and refused if it breaks a promise.
"""

from collections.abc import Callable
from contextvars import ContextVar
from itertools import pairwise, product
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from ..fields import exact_attention
from ..integrate import Event
from ..letters import foreign, letter_of
from ..own_letters import SOURCES
from ..schemes import scheme as scheme_of
from ..shape import KINDS, SHAPES
from ..support.words import first_line
from .base import CHECKS
from .cache import slots_of
from .config import SplitstepConfig
from .cost import example_flops
from .trial import LENGTH, ROWS, Given, Trial, apart, gap, kind_name, other, real_tokens

MASKS = {"input_ids": "attention_mask", "values": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}
GROWS = {"causal": "input_ids", "translation": "decoder_input_ids"}  # the input that comes token by token
CUT = 6  # where a cache is reordered and cropped
ORDER = [2, 0, 0]  # the rows that go on after that
TEXTS = ((7, 1, 12), (20,), (3, 10, 7))  # the lengths of packed texts, in each row


def later_tokens(trial: Trial) -> float:
    """How far logits before a token move when it moves; in training, too."""
    name, worst = GROWS[trial.kind], 0.0
    whole = {MASKS[key]: torch.ones(ROWS, LENGTH).long() for key in trial.inputs}
    for training, masks in product((False, True), ({}, whole)):
        trial.model.train(training)
        plain = trial(trial.inputs, **masks)
        for j in (1, LENGTH // 2, LENGTH - 1):
            changed = trial.inputs[name].clone()
            changed[:, j] = other(changed[:, j])
            moved = trial(trial.inputs | {name: changed}, **masks)
            worst = max(worst, gap(moved[:, :j], plain[:, :j]))
    trial.model.eval()
    return worst


def padding(trial: Trial) -> float:
    """How far logits are from those of each row alone, whatever stands in the padding."""
    given = trial.inputs
    left, right = ((0, 3, 0), (0, 0, 5)) if trial.kind != "vectors" else ((0, 0, 0), (0, 3, 5))
    real = {name: real_tokens(left, right) for name in given}
    if "decoder_input_ids" in real:
        real["decoder_input_ids"] = real["decoder_input_ids"].flip(0)
    masks = {MASKS[name]: mask.long() for name, mask in real.items()}
    hidden = {
        name: torch.where(mask if x.ndim == 2 else mask[..., None], x, other(x))
        for (name, x), mask in zip(given.items(), real.values(), strict=True)
    }
    counts = None if trial.kind == "sequence" else [*real.values()][-1]  # the logits that are of real tokens
    worst = 0.0
    for logits in (trial(given, **masks), trial(hidden, **masks)):
        for i in range(ROWS):
            row = {name: x[i : i + 1, real[name][i]] for name, x in given.items()}
            worst = max(worst, gap(logits[i] if counts is None else logits[i, counts[i]], trial(row)[0]))
    return worst


def packing(trial: Trial) -> float:
    """How far the logits of texts that share a row are from those of each text alone."""
    if trial.kind == "causal":
        more = {"position_ids": torch.tensor([[i for size in row for i in range(size)] for row in TEXTS])}
    else:
        more = {"seq_idx": torch.tensor([[n for n, size in enumerate(row) for _ in range(size)] for row in TEXTS])}
    ids, packed = trial.inputs["input_ids"], trial(trial.inputs, **more)
    pairs = (
        (logits, text)
        for found, row, sizes in zip(packed, ids, TEXTS, strict=True)
        for logits, text in zip(found.split(sizes), row.split(sizes), strict=True)
    )
    return max(gap(logits, trial({"input_ids": text[None]})[0]) for logits, text in pairs)


def fed(trial: Trial, given: Given, cache: Any, *cuts: int) -> Tensor:
    """The logits from the first cut to the last, piece by piece."""
    name = GROWS[trial.kind]
    growing = {name, MASKS[name]} & given.keys()
    kept = {key: x for key, x in given.items() if key not in growing}
    pieces = []
    for i, j in pairwise(cuts):
        new = {key: x[:, i if key == name else 0 : j] for key, x in given.items() if key in growing}
        pieces.append(trial(kept | new, cache))
    return torch.cat(pieces, 1)


def new_cache(trial: Trial, static: bool = False) -> Any:
    """An empty cache that grows, or one of a fixed size."""
    cache: Any = StaticCache(trial.model.config, max_cache_len=LENGTH + 2) if static else DynamicCache()
    return EncoderDecoderCache(cache, DynamicCache()) if trial.kind == "translation" else cache


def cache(trial: Trial) -> float:
    """How far logits with a cache are from those without: token by token and in pieces, of padded rows, in a cache of a
    fixed size, with rows in another order, and after a crop."""
    check_kept(trial)
    name, worst = GROWS[trial.kind], 0.0
    real = real_tokens((0, 3, 1), (0, 0, 0))
    for given in (trial.inputs, trial.inputs | {MASKS[name]: real.long()}):
        whole = trial(given)
        shown = real if MASKS[name] in given else torch.ones_like(real)
        for static in (False, True):
            found = fed(trial, given, new_cache(trial, static), 0, 1, CUT, CUT + 1, LENGTH)
            worst = max(worst, gap(found[shown], whole[shown]))
    return max(worst, reordered(trial), cropped(trial))


def check_kept(trial: Trial) -> None:
    """Refuse a letter that declares a state if its field keeps none."""
    known = new_cache(trial)
    fed(trial, trial.inputs, known, 0, CUT)
    slots = known.self_attention_cache if trial.kind == "translation" else known
    kept = sum(layer.get_seq_length() > 0 for layer in slots.layers)
    if kept < slots_of(*trial.model.config.stacks()[-1]).own:
        raise ValueError('a letter declares a state that its field does not keep in context.cache: state="nothing"')


def reordered(trial: Trial) -> float:
    """How far logits are off when beams change places."""
    given, known = trial.inputs, new_cache(trial)
    fed(trial, given, known, 0, CUT)
    known.reorder_cache(torch.tensor(ORDER))
    swapped = {name: x[ORDER] for name, x in given.items()}
    return gap(fed(trial, swapped, known, CUT, LENGTH), trial(swapped)[:, CUT:])


def cropped(trial: Trial) -> float:
    """How far logits are off when the last tokens are taken back and others come instead."""
    name, known = GROWS[trial.kind], new_cache(trial)
    fed(trial, trial.inputs, known, 0, LENGTH)
    known.crop(CUT)
    ids = trial.inputs[name]
    changed = trial.inputs | {name: torch.cat((ids[:, :CUT], other(ids[:, CUT:])), 1)}
    return gap(fed(trial, changed, known, CUT, CUT + 1, LENGTH), trial(changed)[:, CUT:])


def replay(trial: Trial) -> float:
    """How far fields differ when they are called again with the same arguments, in training and with dropout."""
    model, seed, events = trial.made(0.1).to(trial.model.dtype), torch.tensor(5), list[Event]()

    def logits(training: bool, **more: Any) -> Tensor:
        return model.train(training)(**trial.inputs, use_cache=False, dropout_seed=seed, **more).logits

    before = logits(False), logits(True, observe=events.append)
    calls = [(event, name) for event in events for name in event.fields]
    once, again = [value(*one) for one in calls], [value(*one) for one in calls[::-1]][::-1]
    after = logits(False), logits(True, observe=lambda event: None)  # unobserved, a reversible row is rounded
    return max(gap(*pair) for pair in zip((*before, *once), (*after, *again), strict=True))


def value(event: Event, name: str) -> Tensor:
    """What a field of this event returns."""
    field: Any = event.fields[name]
    if event.move.kind == "flow":
        return field.flow(event.times[name], event.h, event.read, event.context)
    return field(event.times[name], event.read, event.context)


def mixing(trial: Trial) -> float:
    """How far the values of a field move with other tokens, if its letter does not declare that it mixes them."""
    events, worst = list[Event](), 0.0
    trial(trial.inputs, observe=events.append)
    for event, name in [(one, name) for one in events for name in one.fields if not letter_of(name).mixes]:
        changed = event.read.clone()
        changed[:, 0] = other(changed[:, 0])
        worst = max(worst, gap(value(event._replace(read=changed), name)[:, 1:], value(event, name)[:, 1:]))
    return worst


def flops(trial: Trial) -> float:
    """How far the operations that fields tell of are from those that PyTorch counts, as a share of these."""
    one = {name: x[:1] for name, x in trial.inputs.items()}
    with FlopCounterMode(display=False) as counter, exact_attention():
        trial(one)
    length = trial.model.config.max_positions if trial.kind == "image" else LENGTH
    told = example_flops(trial.model, length, LENGTH)
    return abs(told / counter.get_total_flops() - 1)


def saving(trial: Trial) -> float:
    """How far the logits of a model that was saved and loaded are from its own."""
    with TemporaryDirectory() as folder:
        trial.model.save_pretrained(folder)
        loaded = type(trial.model).from_pretrained(folder).eval()
    return gap(loaded(**trial.inputs, use_cache=False).logits, trial())


class Promise(NamedTuple):
    """What models of these kinds promise: how a figure that breaks it is told, and the function that finds it."""

    broken: str
    figure: Callable[[Trial], float]
    kinds: tuple[str, ...] = tuple(SHAPES)


PROMISES: dict[str, Promise] = {
    "later": Promise("logits move by {:.3g} when a later token moves", later_tokens, tuple(GROWS)),
    "padding": Promise(
        "padding moves logits by {:.3g}", padding, ("causal", "masked", "sequence", "translation", "vectors")
    ),
    "packing": Promise("texts in one row move each other's logits by {:.3g}", packing, ("causal", "masked")),
    "cache": Promise("logits with a cache are {:.3g} off those without", cache, tuple(GROWS)),
    "mixing": Promise("a token moves others by {:.3g}, which its letter must declare: mixes=True", mixing),
    "replay": Promise("called again with the same input, a field's values differ by {:.3g}", replay),
    "flops": Promise("what flops() tells is {:.1%} off what PyTorch counts", flops),
    "saving": Promise("logits of a saved and loaded model differ by {:.3g}", saving),
}  # by the names that tables have


class Finding(NamedTuple):
    """How a model keeps a promise: a figure, None if there was an error instead; and how it is broken, "" if kept."""

    promise: str
    figure: float | None
    broken: str


def promised(trial: Trial, name: str) -> bool:
    """Whether such a model promises this: fields that are not pure do not promise to give the same values again."""
    impure = any(not letter_of(field).pure for stack, _ in trial.model.config.stacks() for field in stack.fields)
    return trial.kind in PROMISES[name].kinds and not (impure and name == "replay")


def found_of(trial: Trial, name: str) -> Finding:
    """How this model keeps the promise."""
    promise = PROMISES[name]
    try:
        figure = promise.figure(trial)
    except Exception as error:  # of somebody else's field
        says = first_line(error).removesuffix(".")
        return Finding(name, None, f"the test of {name} ended with {type(error).__name__}: {says}")
    kept = figure <= trial.tolerance
    return Finding(name, figure, "" if kept else promise.broken.format(figure))


_met: dict[Any, str] = {}  # how each letter of others breaks the contract of a kind; "" if it keeps it
TRYING: ContextVar[bool] = ContextVar("trying", default=False)  # whether models are made for a trial


def findings(scheme: str, kind: str | SplitstepConfig = "causal") -> list[Finding]:
    """How models of this kind keep their promises. Instead of a kind a config may be given, whose options are used."""
    config = KINDS.find(kind).config() if isinstance(kind, str) else kind
    if not kind_name(config):
        raise ValueError(f"{type(config).__name__} is no kind that is tried: use one of {', '.join(SHAPES)}.")
    token = TRYING.set(True)
    try:
        with apart():
            trial = Trial(config, str(scheme_of(scheme)))
            return [found_of(trial, name) for name in PROMISES if promised(trial, name)]
    finally:
        TRYING.reset(token)


def check(scheme: str, kind: str | SplitstepConfig = "causal") -> None:
    """Refuse a scheme whose models break a promise."""
    if broken := "; ".join(one.broken for one in findings(scheme, kind) if one.broken):
        named = kind if isinstance(kind, str) else kind.model_type
        raise ValueError(f"{scheme!r} breaks what {named} models promise: {broken}.")


def meet(config: SplitstepConfig) -> None:
    """Refuse a scheme with a letter of others that breaks the contract of such models; each letter is tried once."""
    if TRYING.get() or not kind_name(config):
        return
    for stack, _ in config.stacks():
        for name in foreign(stack.fields):
            if broken := tried(name, name in stack.solved, config):
                file = f" --letters {SOURCES[name[0]].file}" if name[0] in SOURCES else ""
                raise ValueError(
                    f"The letter {name[0]} ({letter_of(name).title}) is refused in {config.model_type} models: "
                    f'{broken}. Repair its field; `splitstep schemes "A {name[0]}" --check{file}` shows all promises.'
                )


CHECKS.append(meet)


def tried(name: str, solved: bool, config: SplitstepConfig) -> str:
    """How a field with the config's options breaks the contract of such models, by its exact flow or by its values; ""
    if it does not."""
    key = letter_of(name), solved, type(config), repr(config.options_of(name))
    if key not in _met:
        scheme = f"A {name}@exact" if solved else f"A {name} @midpoint"
        _met[key] = "; ".join(one.broken for one in findings(scheme, config) if one.broken)
    return _met[key]
