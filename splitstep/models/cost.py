"""What a network costs, and its twin: that of another scheme at the same cost; and what any causal model costs."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from fractions import Fraction
from itertools import product
from math import ceil, floor, gcd
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

from ..fields import FeedForward, exact_attention
from ..scheme import Scheme
from ..schemes import label
from ..schemes import scheme as scheme_of
from ..shape import DEEPEST, feed_forwards, names_fields
from .base import SplitstepModel, all_stacks
from .body import Body
from .config import SplitstepConfig, kind_of

By = Literal["parameters", "flops"]
TOLERANCE: dict[By, float] = {"parameters": 0.001, "flops": 0.01}
UNIT: dict[By, str] = {"parameters": "parameters in the body", "flops": "FLOPs per token"}
MULTIPLE = 8  # of widths: products of others are slow on GPUs


class Cost(NamedTuple):
    """What a network costs: parameters, and forward floating-point operations in matrix products."""

    parameters: int  # all of them, shared ones counted once
    body: int  # those of the stacks and their final norms, without embedding and head: the count that papers print
    flops: int  # per token at `length`, rounded; the head and every pair of query and key are counted
    length: int  # tokens per example; of an encoder-decoder, those of the target

    def of(self, by: By) -> int:
        """The count that is equal in twins `by` parameters or FLOPs."""
        return self.body if by == "parameters" else self.flops


def cost(config: SplitstepConfig, length: int | None = None, source_length: int | None = None) -> Cost:
    """What the network of this config costs at `length` tokens (by default max_positions); nothing is allocated.

    FLOPs per token are those of one example divided by its tokens. An encoder-decoder's tokens are the target's;
    encoder, decoder and head are counted, with a source of `source_length` tokens (by default as many as the target's).
    """
    length, source = lengths_of(config, length, source_length)
    parameters, body, flops = counts(config, length, source)
    return Cost(parameters, body, round(Fraction(flops, length)), length)


def counts(config: SplitstepConfig, length: int, source: int) -> list[int]:
    """All parameters, those of the body, and the FLOPs of an example. Layers of equal widths cost the same, so a deep
    stack of them is counted with one layer and with two."""
    deep = next((name for name in config.depths if getattr(config, name) > 2), None)
    if deep is None or isinstance(config.ffn, list):
        model = sketch(config)
        parameters = sum(p.numel() for p in model.parameters())
        return [parameters, body_parameters(model), example_flops(model, length, source)]
    shallow, more = (deepcopy(config), deepcopy(config)), getattr(config, deep) - 1
    for layers, each in enumerate(shallow, 1):
        setattr(each, deep, layers)
    one, two = (counts(each, length, source) for each in shallow)
    return [a + more * (b - a) for a, b in zip(one, two, strict=True)]


def lengths_of(config: SplitstepConfig, length: int | None, source_length: int | None = None) -> tuple[int, int]:
    """Target and source length, checked."""
    length = config.max_positions if length is None else length
    source = length if source_length is None else source_length
    if length < 1 or source < 1:
        raise ValueError(f"length={length} and source_length={source} must be positive numbers of tokens.")
    if source_length is not None and not config.is_encoder_decoder:
        raise ValueError(
            f"source_length={source_length} is for encoder-decoders; this is a {config.model_type} config."
        )
    config.check_length(max(length, source))
    return length, source


def sketch(config: SplitstepConfig) -> SplitstepModel:
    """The model of this config with shapes only: no memory is allocated."""
    with torch.device("meta"):
        return kind_of(config).model(config)


def body_parameters(model: SplitstepModel) -> int:
    """Parameters of the stacks and their final norms."""
    return sum(p.numel() for body in model.modules() if isinstance(body, Body) for p in body.parameters())


def example_flops(model: SplitstepModel, length: int, source: int) -> int:
    """Forward floating-point operations of one example: the fields, and the matrices around the stacks."""
    return sum(flops for _, flops in field_flops(model, length, source)) + ends_flops(model, length)


def field_flops(model: SplitstepModel, length: int, source: int) -> Iterator[tuple[Any, int]]:
    """Each field, layer by layer and stack after stack, with its cost times the scheme's evaluations of it."""
    stacks = list(all_stacks(model))
    tokens = (length,) if len(stacks) == 1 else (source, length)
    for stack, n in zip(stacks, tokens, strict=True):
        for layer in stack.layers:
            for name, field in layer.items():  # pyright: ignore[reportCallIssue]
                flows = stack.scheme.flows(name)
                flops = (stack.scheme.count(name) - flows) * field.flops(n, source)
                yield field, stack.substeps * (flops + (flows * field.flow_flops(n, source) if flows else 0))


def ends_flops(model: SplitstepModel, length: int) -> int:
    """Those of the matrices around the stacks: patches, heads."""
    matrices = [(name, length) for name in model.per_token] + [(name, 1) for name in model.per_example]
    return sum(2 * rows * model.get_parameter(f"{name}.weight").numel() for name, rows in matrices)


def twin(
    reference: SplitstepConfig, scheme: str | Scheme, by: By = "parameters", length: int | None = None
) -> SplitstepConfig:
    """The config of another scheme at the reference's cost. All else is equal; `matched` records what was matched.

    At equal parameters (of the body, within 0.1%) the feed-forward fields share the reference's width: the exact
    fraction, else the nearest multiple of 8, else multiples of 8 that differ by 8, else widths that differ by one. At
    equal FLOPs (within 1%) the depth is matched first, with fewer, longer steps over the same time; then the width, by
    the same rule.
    """
    if by not in TOLERANCE:
        raise ValueError(f"by={by!r} is unknown: use 'parameters' or 'flops'.")
    new = scheme_of(scheme)
    goal = cost(reference, length)
    candidates = same_depth if by == "parameters" else other_depths
    tried: list[tuple[float, SplitstepConfig, Cost]] = []
    for candidate in candidates(with_scheme(reference, new), reference, goal):
        found = cost(candidate, length)
        difference = found.of(by) / goal.of(by) - 1
        if abs(difference) <= TOLERANCE[by]:
            candidate.matched = {
                "by": by,
                "reference": str(reference.scheme),
                "reference_cost": goal._asdict(),
                "cost": found._asdict(),
                "difference": difference,
            }
            return candidate
        tried.append((abs(difference), candidate, found))
    _, nearest, found = min(tried, key=lambda t: t[0])
    raise ValueError(unreachable(by, reference, goal, nearest, found))


def unreachable(by: By, reference: SplitstepConfig, goal: Cost, nearest: SplitstepConfig, found: Cost) -> str:
    excess = found.of(by) - goal.of(by)
    depths = [n for _, n in nearest.stacks()]
    layers = " + ".join(map(str, depths))
    stuck = by == "flops" and len(depths) > 1 and gcd(*depths) == 1 and excess > 0
    hint = " whose layers and decoder_layers have a common divisor, to take fewer steps in both," if stuck else ""
    ffn = workable_ffn(by, reference, nearest, goal.length)
    such = "" if ffn is None else f", such as this one with ffn={ffn}"
    at = f" at length {goal.length:,}" if by == "flops" else ""
    return (
        f"The reference {label(reference.scheme)} has {goal.of(by):,} {UNIT[by]}{at}; "
        f"{label(nearest.scheme)} comes no nearer than {found.of(by):,} (layers={layers}, "
        f"ffn={span(widths_of(nearest))}), {abs(excess):,} {'more' if excess > 0 else 'fewer'}: use a "
        f"reference{hint} within {TOLERANCE[by]:.1%} of that{such}."
    )


def workable_ffn(by: By, reference: SplitstepConfig, nearest: SplitstepConfig, length: int) -> int | None:
    """An ffn at which the reference would have a twin of the depth of `nearest`, close to the cost of `nearest`."""
    old, new = line(by, reference, length), line(by, nearest, length)
    if not old.slopes:
        return None
    wanted = Fraction(new.at(widths_of(nearest)) - old.base, sum(old.slopes))
    middle = max(1, round(wanted))
    near = sorted(range(max(1, middle - 16), middle + 17), key=lambda ffn: abs(ffn - wanted))
    for ffn in (*near, 2 * middle, 4 * middle, 8 * middle):  # in a wide network the biases hardly count
        budget = old.at([ffn] * len(old.slopes))
        if any(abs(new.at(widths) / budget - 1) <= TOLERANCE[by] for widths in all_widths(new, budget, None)):
            return ffn
    return None


def with_scheme(reference: SplitstepConfig, new: Scheme) -> SplitstepConfig:
    """The reference with another scheme; its widths are still to be chosen."""
    config = deepcopy(reference)
    config.scheme, config.matched = new, None
    names = feed_forwards(new)
    if isinstance(config.activation, dict) and not names_fields(config.activation, names):
        if len(kinds := set(config.activation.values())) > 1:
            raise ValueError(
                f"activation={config.activation} names the fields of {reference.scheme}; {config.scheme} has "
                f"{', '.join(names) or 'none'}: give the reference one activation for all."
            )
        [config.activation] = kinds
    config.check_fields()
    config.check_letters()
    return config


def with_widths(config: SplitstepConfig, widths: Sequence[int]) -> SplitstepConfig:
    """The config with these feed-forward widths, as one number if they are all the same."""
    config = deepcopy(config)
    if widths or isinstance(config.ffn, list):
        config.ffn = widths[0] if len(set(widths)) == 1 else list(widths)
    config.check_ffn()
    return config


def with_depth(config: SplitstepConfig, ratio: Fraction) -> SplitstepConfig:
    """The config with `ratio` times the layers over the same time."""
    config = deepcopy(config)
    if ratio == 1:
        return config
    for name in config.depths:
        setattr(config, name, int(getattr(config, name) * ratio))
    config.step = float(config.step / ratio)
    return config


def widths_of(config: SplitstepConfig) -> list[int]:
    """The width of each feed-forward field, layer by layer, stack after stack."""
    return [width for stack in config.ffn_rows() for row in stack for width in row]


def same_depth(config: SplitstepConfig, reference: SplitstepConfig, goal: Cost) -> Iterator[SplitstepConfig]:
    """Candidates for equal parameters, in order of preference."""
    for widths in all_widths(line("parameters", config, goal.length), goal.body, fractions(config, reference)):
        yield with_widths(config, widths)


def other_depths(config: SplitstepConfig, reference: SplitstepConfig, goal: Cost) -> Iterator[SplitstepConfig]:
    """Candidates for equal FLOPs, in order of preference: the nearest depth at the fraction's width comes first.

    All stacks share one `step`, so the depths of an encoder-decoder are scaled by one factor: both keep their time.
    """
    length, model = goal.length, sketch(reference)
    budget, ends = example_flops(model, length, length), ends_flops(model, length)
    here = line("flops", config, length)
    width = Fraction(sum(widths_of(reference)), max(config.ffn_fields, 1))  # at the reference's depth
    unit = gcd(*(layers for _, layers in reference.stacks()))

    def depth(width: Fraction) -> Fraction:
        """The depth, in units, that meets the budget at this width."""
        return unit * (budget - ends) / (here.base - ends + sum(here.slopes) * width)

    most = min(DEEPEST, max(1, floor(depth(Fraction(1))) + 1))  # deeper ones are too expensive at any width
    for k in sorted(range(1, most + 1), key=lambda k: (abs(k - depth(width)), -k)):
        deep = with_depth(config, Fraction(k, unit))
        at = line("flops", deep, length)
        whole = [int(width)] * len(at.slopes) if width > 0 and width.denominator == 1 else None
        for widths in all_widths(at, budget, fractions(config, reference) if k == unit else whole):
            yield with_widths(deep, widths)


def fractions(config: SplitstepConfig, reference: SplitstepConfig) -> list[int] | None:
    """The reference's widths divided among the fields of each layer, if they divide exactly: half each for Macaron."""
    shared: list[int] = []
    for rows, (new, _) in zip(reference.ffn_rows(), config.stacks(), strict=True):
        parts = len(feed_forwards(new))
        for row in rows:
            if len(row) != parts and (not row or not parts or sum(row) % parts):
                return None
            shared += row if len(row) == parts else [sum(row) // parts] * parts
    return shared


class Line(NamedTuple):
    """A cost as a function of the feed-forward widths w: base + sum_i slopes_i w_i."""

    base: int
    slopes: list[int]

    def at(self, widths: Sequence[int]) -> int:
        return self.base + sum(s * w for s, w in zip(self.slopes, widths, strict=True))


def line(by: By, config: SplitstepConfig, length: int) -> Line:
    """The parameters of this config's body, or the FLOPs of one example, as its widths vary."""
    thin = deepcopy(config)
    thin.ffn = 1
    model = sketch(thin)
    if by == "flops":
        slopes = [flops for field, flops in field_flops(model, length, length) if isinstance(field, FeedForward)]
        return Line(example_flops(model, length, length) - sum(slopes), slopes)
    fields = [field for field in model.modules() if isinstance(field, FeedForward)]
    slopes = [sum(p.numel() for p in (*field.up.parameters(), field.down.weight)) for field in fields]
    return Line(body_parameters(model) - sum(slopes), slopes)


def all_widths(at: Line, budget: int, fraction: list[int] | None) -> Iterator[list[int]]:
    """Widths in order of preference: the fraction, the nearest multiple of 8, adjacent ones, adjacent widths."""
    if not at.slopes:
        yield []
        return
    if fraction is not None:
        yield fraction
    fields = len(at.slopes)
    ideal = Fraction(budget - at.base, sum(at.slopes))
    multiples = {max(MULTIPLE, MULTIPLE * f(ideal / MULTIPLE)) for f in (floor, ceil)}
    yield [min(multiples, key=lambda w: (abs(w - ideal), w))] * fields
    for unit in (MULTIPLE, 1):
        yield nearest_mix(max(unit, unit * floor(ideal / unit)), unit, at, budget)


def nearest_mix(low: int, unit: int, at: Line, budget: int) -> list[int]:
    """The mix of the widths low and low + unit that is nearest to the budget; of several, the most even one."""
    groups = sorted(Counter(at.slopes).items())

    def miss(extras: tuple[int, ...]) -> tuple[int, Fraction]:
        shares = [Fraction(extra, n) for extra, (_, n) in zip(extras, groups, strict=True)]
        more = unit * sum(e * slope for e, (slope, _) in zip(extras, groups, strict=True))
        return abs(at.at([low] * len(at.slopes)) + more - budget), max(shares) - min(shares)

    extras = min(product(*(range(n + 1) for _, n in groups)), key=miss)
    widths = {slope: iter(spread(low, unit, e, n)) for e, (slope, n) in zip(extras, groups, strict=True)}
    return [next(widths[slope]) for slope in at.slopes]


def spread(low: int, unit: int, extra: int, fields: int) -> list[int]:
    """`fields` widths, `extra` of them low + unit and the others low, as evenly as whole numbers allow."""
    return [low + unit * ((i + 1) * extra // fields - i * extra // fields) for i in range(fields)]


def span(widths: Sequence[int]) -> str:
    """Widths for humans: "512", or "341 x 4, 342 x 8"."""
    counts = sorted(Counter(widths).items())
    return str(counts[0][0]) if len(counts) == 1 else ", ".join(f"{w} x {n}" for w, n in counts) or "none"


Make = Callable[[], Any]  # makes a causal model


def counted(make: Make, length: int) -> Cost:
    """What any causal model costs at `length` tokens: its parameters, and the forward operations that PyTorch counts.

    The pass runs on fake tensors, which have shapes and no memory, with attention written out: the fused kernel of a
    CPU counts as nothing. So do scans and kernels that PyTorch does not know: the speed of a run shows those. A model
    that does not run on fake tensors is made for it.
    """
    try:
        with quiet():
            return counted_in(FakeTensorMode, make, length)
    except ValueError:
        raise  # a config or a block that is refused
    except Exception:  # such as a look at a number of a tensor, of which there are many
        return counted_in(nullcontext, make, length)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what PyTorch logs if an operation has no fake version."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = level


@torch.no_grad()
def counted_in(place: Callable[[], Any], make: Make, length: int) -> Cost:
    """As `counted`, where tensors are made as this place makes them."""
    with place(), torch.random.fork_rng(devices=[]):
        model = make().eval()
        if isinstance(model, PreTrainedModel) and model._can_set_experts_implementation():
            model.set_experts_implementation("batched_mm")  # the others read numbers, or count as nothing
        counter = FlopCounterMode(display=False)
        with exact_attention(), counter:
            model(input_ids=torch.zeros(1, length, dtype=torch.long), use_cache=False)
    whole = sum(p.numel() for p in model.parameters())
    return Cost(whole, whole - around(model), round(counter.get_total_flops() / length), length)


def around(model: Any) -> int:
    """The parameters outside of the layers: of embeddings and the head."""
    tables = [one.weight for one in model.modules() if isinstance(one, nn.Embedding)]
    head = model.get_output_embeddings()
    outside = [*tables, *([] if head is None else head.parameters())]
    return sum(p.numel() for p in {id(p): p for p in outside}.values())
