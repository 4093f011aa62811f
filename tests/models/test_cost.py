"""Equal cost: counts against PyTorch's own counter, against the papers, and twins against brute force."""

import json
import re
from itertools import product
from math import floor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

import splitstep as ss
from splitstep import SCHEMES, scheme
from splitstep.fields import exact_attention
from splitstep.models import SplitstepConfig, cost, twin
from splitstep.models.cost import By, Line, example_flops, line, nearest_mix, sketch, spread

SMALL: dict[str, Any] = dict(layers=2, width=16, heads=4, ffn=24, max_positions=16)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"kv_heads": 2, "positions": "rotary", "activation": "swiglu", "bias": False, "norm": "rms"},
    {"kv_heads": 1, "positions": "rotary", "head_size": 6, "width": 15, "heads": 2},
]
ROWS = ["lie", "lie-postnorm", "macaron", "strang-midpoint", "rk4", "reversible", "A0/2 F A1/2 @heun"]


def counted(config: SplitstepConfig, batch: int, length: int, source: int, device: str = "cpu") -> int:
    """Forward floating-point operations that PyTorch counts, every bmm of attention included."""
    model = sketch(config).to_empty(device=device).eval()
    tokens = torch.zeros(batch, length, dtype=torch.long, device=device)
    inputs: dict[str, torch.Tensor] = {"input_ids": tokens}
    if isinstance(config, ss.ImageConfig):
        inputs = {"pixel_values": torch.zeros(batch, config.channels, config.image_size, config.image_size)}
    elif isinstance(config, ss.TranslationConfig):
        inputs = {"input_ids": tokens.new_zeros(batch, source), "decoder_input_ids": tokens}
    with FlopCounterMode(display=False) as counter, exact_attention(), torch.no_grad():
        model(**inputs)
    return counter.get_total_flops()


@pytest.mark.parametrize(("row", "variant"), [*zip(ROWS, VARIANTS * 3, strict=False)])
def test_flops_are_the_counted_ones(row: str, variant: dict[str, Any]) -> None:
    shape = {**SMALL, **variant, "scheme": row}
    text = shape | {"vocab_size": 40}
    examples: list[tuple[SplitstepConfig, int, int | None]] = [
        (ss.CausalConfig(**text), 7, None),
        (ss.MaskedConfig(**text, token_types=2, embedding_norm=True), 7, None),
        (ss.SequenceConfig(**text, num_labels=5), 7, None),
        (ss.ImageConfig(**shape, image_size=12, patch=4, channels=3), 9, None),
        (ss.TranslationConfig(**text, decoder_layers=3), 5, 8),
    ]
    for config, length, source in examples:
        per_example = example_flops(sketch(config), length, source or length)
        assert counted(config, 3, length, source or length) == 3 * per_example
        assert cost(config, length, source).flops == round(per_example / length)


def test_flops_of_a_large_model_are_the_counted_ones() -> None:
    config = ss.CausalConfig(layers=12, width=768, heads=12, ffn=3072, vocab_size=50257, scheme="macaron")
    assert counted(config, 2, 1024, 1024, "meta") == 2 * 1024 * cost(config).flops


PAPER = {  # papers' body counts: Lie-Trotter, Macaron
    "iwslt14": (ss.TranslationConfig(width=512, heads=4, ffn=1024, vocab_size=10_000), 31_545_344, 31_563_776),
    "wmt-base": (ss.TranslationConfig(width=512, heads=8, ffn=2048, vocab_size=10_000), 44_140_544, 44_158_976),
    "wmt-big": (ss.TranslationConfig(width=1024, heads=16, ffn=4096, vocab_size=10_000), 176_361_472, 176_398_336),
    # twelve layers whose norms carry no weights: no embedding, no transform, no output bias
    "bert": (ss.MaskedConfig(layers=12, width=768, heads=12, ffn=3072, norm_affine=False), 85_017_600, 85_026_816),
}


@pytest.mark.parametrize("name", PAPER)
def test_macaron_has_the_papers_counts(name: str) -> None:
    reference, lie, macaron = PAPER[name]
    other = twin(reference, "macaron")
    assert (cost(reference).body, cost(other).body) == (lie, macaron)
    assert isinstance(reference.ffn, int)
    assert other.ffn == reference.ffn // 2
    assert cost(other).parameters - cost(reference).parameters == macaron - lie
    if isinstance(other, ss.TranslationConfig):  # one matrix for source, target and output
        assert cost(other).parameters == macaron + 10_000 * other.width


@pytest.mark.parametrize("row", ROWS)
def test_cost_counts_the_real_parameters_and_draws_nothing(row: str) -> None:
    config = ss.TranslationConfig(**SMALL, scheme=row)
    before = torch.get_rng_state()
    c = cost(config, 8)
    assert torch.equal(before, torch.get_rng_state())
    real = ss.SplitstepForTranslation(config)
    assert c.parameters == sum(p.numel() for p in real.parameters())
    outside = real.encoder.embedding.tokens.weight.numel()  # sinusoidal positions have no table
    assert c.body == c.parameters - outside


@pytest.mark.parametrize("row", ["strang", "rk4", "strang-midpoint", "reversible", "parallel", "reverse-lie"])
def test_tied_schemes_keep_their_width_at_equal_parameters(row: str) -> None:
    for ffn in (100, [100, 90, 100, 70]):
        reference = ss.TranslationConfig(**{**SMALL, "ffn": ffn}, decoder_layers=2)
        other = twin(reference, row)
        assert other.ffn == ffn
        assert cost(other).parameters == cost(reference).parameters
        assert other.matched["difference"] == 0


def test_widths_are_a_fraction_then_multiples_of_8_then_neighbours() -> None:
    shape: dict[str, Any] = dict(layers=4, width=64, heads=4)
    assert twin(ss.CausalConfig(**shape, ffn=4096), "macaron").ffn == 2048
    assert twin(ss.CausalConfig(**shape, ffn=[4096, 4094, 4096, 4094]), "macaron").ffn == [
        2048, 2048, 2047, 2047, 2048, 2048, 2047, 2047,
    ]  # fmt: skip
    assert twin(ss.CausalConfig(**shape, ffn=4105), "F0/3 A F1/3 F2/3").ffn == 1368  # 4105 / 3 is no whole number
    # A little less than 405 / 2 pays the second half's norm and bias: 201.75, which one layer cannot have in multiples.
    assert twin(ss.CausalConfig(**shape, ffn=405), "macaron").ffn == [200, 200, 200, 208] * 2
    assert twin(ss.CausalConfig(**(shape | {"layers": 1}), ffn=405), "macaron").ffn == 202
    assert twin(ss.CausalConfig(**(shape | {"layers": 1}), ffn=404), "macaron").ffn == [201, 202]
    back = twin(twin(ss.CausalConfig(**shape, ffn=4096), "macaron"), "lie")
    assert (back.ffn, back.scheme) == (4096, scheme("A F"))


def test_own_weights_of_attention_are_paid_by_the_feed_forward() -> None:
    reference = ss.CausalConfig(layers=12, width=768, heads=12, ffn=3072)
    assert twin(reference, "A0/2 F A1/2").ffn == 1536  # the nearest multiple of 8
    reference = ss.CausalConfig(layers=6, width=256, heads=4, ffn=1024)
    assert twin(reference, "A0/2 F A1/2").ffn == [504, 512, 512, 512, 512, 512]  # 512 alone is 0.13% off


def test_fewer_longer_steps_at_equal_flops() -> None:
    reference = ss.CausalConfig(layers=12, width=768, heads=12, ffn=3072, step=0.5)
    other = twin(reference, "rk4", "flops", length=512)
    assert (other.layers, other.ffn, other.step) == (3, 3072, 2.0)
    assert cost(other, 512).flops == cost(reference, 512).flops
    other = twin(reference, "strang", "flops", length=512)
    assert (other.layers, other.ffn, other.step) == (8, 2816, 0.75)  # 7.5 layers at 3072
    assert twin(reference, "macaron", "flops").ffn == 1536  # own weights share the width: the depth stays
    deeper = twin(ss.CausalConfig(layers=3, width=64, heads=4, ffn=256, scheme="rk4"), "lie", "flops")
    assert (deeper.layers, deeper.ffn, deeper.step) == (12, 256, 0.25)


def test_what_was_matched_is_in_config_json(tmp_path: Any) -> None:
    reference = ss.CausalConfig(layers=4, width=64, heads=4, ffn=4096)
    for by in ("parameters", "flops"):
        other = twin(reference, "macaron", by, length=100)
        other.save_pretrained(tmp_path)
        matched = json.loads((tmp_path / "config.json").read_text())["matched"]
        assert matched == {
            "by": by,
            "reference": "A F",
            "reference_cost": cost(reference, 100)._asdict(),
            "cost": cost(other, 100)._asdict(),
            "difference": cost(other, 100).of(by) / cost(reference, 100).of(by) - 1,
        }
        assert ss.CausalConfig.from_pretrained(tmp_path).matched == matched
    assert reference.matched is None


@pytest.mark.parametrize(("shape", "scheme", "by"), [
    ({"layers": 1, "width": 64, "heads": 2, "ffn": 255}, "macaron", "parameters"),
    ({"layers": 2, "width": 16, "heads": 2, "ffn": 1}, "macaron", "parameters"),
    ({"layers": 1, "width": 16, "heads": 4, "ffn": 3}, "A0/2 F A1/2", "parameters"),
    ({"layers": 1, "width": 16, "heads": 2, "ffn": 31}, "rk4", "flops"),
])  # fmt: skip
def test_a_reference_without_a_twin_is_told_a_width_that_has_one(shape: dict[str, Any], scheme: str, by: Any) -> None:
    with pytest.raises(ValueError, match=r"such as this one with ffn=\d+\.$") as error:
        twin(ss.CausalConfig(**shape), scheme, by, 64)
    ffn = int(re.findall(r"ffn=(\d+)\.$", str(error.value))[0])
    assert twin(ss.CausalConfig(**{**shape, "ffn": ffn}), scheme, by, 64).matched is not None


def test_an_activation_per_field_follows_the_fields() -> None:
    shape: dict[str, Any] = dict(layers=2, width=32, heads=4, ffn=4096)
    assert twin(ss.CausalConfig(**shape, activation={"F": "relu"}), "macaron").activation == "relu"
    both = {"F0": "relu", "F1": "gelu"}  # as in the published BERT
    assert twin(ss.CausalConfig(**shape, scheme="macaron", activation=both), "F1/2 A F0/2").activation == both
    more = {"F": "gelu", **both}
    assert twin(ss.CausalConfig(**shape, activation=more), "macaron").activation == more
    gated = ss.CausalConfig(**shape, scheme="macaron", activation={"F0": "swiglu", "F1": "gelu"})
    mixed = twin(gated, "A0/2 F0/2 F1/2 A1/2")  # a gated half has more weights per unit of width
    assert mixed.activation == gated.activation
    assert len(set(line("parameters", mixed, 8).slopes)) == 2
    assert abs(mixed.matched["difference"]) <= 1e-3


@st.composite
def references(draw: st.DrawFn) -> SplitstepConfig:
    """Shapes of all kinds, mostly small."""
    kind = draw(
        st.sampled_from([ss.CausalConfig, ss.MaskedConfig, ss.SequenceConfig, ss.ImageConfig, ss.TranslationConfig])
    )
    heads = draw(st.sampled_from([1, 2, 4]))
    layers = draw(st.integers(1, 6))
    row = draw(st.sampled_from(["lie", "lie-postnorm", "macaron", "A0/2 F A1/2", "strang-midpoint"]))
    options: dict[str, Any] = dict(
        scheme=row, layers=layers, heads=heads, width=heads * draw(st.integers(1, 32)),
        norm_affine=draw(st.booleans()), bias=draw(st.booleans()), norm=draw(st.sampled_from(["layer", "rms"])),
        activation=draw(st.sampled_from(["gelu", "swiglu"])), max_positions=64,
        head_size=draw(st.sampled_from([None, 3])),
    )  # fmt: skip
    if kind is ss.TranslationConfig:
        options["decoder_layers"] = draw(st.integers(1, 4))
    config = kind(**options, ffn=draw(st.integers(1, 600)))
    if draw(st.booleans()):
        need = config.ffn_fields
        config = kind(**options, ffn=draw(st.lists(st.integers(1, 600), min_size=need, max_size=need)))
    return config


TARGETS = st.sampled_from([*SCHEMES, "A0/2 F A1/2", "F0/3 A F1/3 F2/3", "A0/2 F0/2 A1/2 F1/2 @heun"])
LEFT_ALONE = {"scheme", "ffn", "matched", "layers", "num_hidden_layers", "decoder_layers", "step", "intermediate_size"}


def same_otherwise(one: SplitstepConfig, other: SplitstepConfig) -> bool:
    a, b = one.to_dict(), other.to_dict()
    shared = a["letters"].keys() & b["letters"].keys()  # each has all options of its own scheme's letters
    a["letters"], b["letters"] = ({name: own[name] for name in shared} for own in (a["letters"], b["letters"]))
    return {k: v for k, v in a.items() if k not in LEFT_ALONE} == {k: v for k, v in b.items() if k not in LEFT_ALONE}


def twin_or_nearest(reference: SplitstepConfig, target: str, by: By) -> SplitstepConfig | int:
    """The twin, or the nearest budget that the error names."""
    try:
        return twin(reference, target, by)
    except ValueError as error:
        [nearest] = re.findall(r"comes no nearer than ([\d,]+)", str(error))
        return int(nearest.replace(",", ""))


@settings(max_examples=15)
@given(references(), TARGETS)
def test_a_twin_has_equal_parameters_or_there_is_none(reference: SplitstepConfig, target: str) -> None:
    budget = cost(reference).body
    other = twin_or_nearest(reference, target, "parameters")
    if isinstance(other, int):
        thin = type(reference)(**{**reference.to_dict(), "scheme": target, "ffn": 1})
        at = line("parameters", thin, 8)  # equal slopes: only the total counts
        assert len(set(at.slopes)) == 1
        units = max(len(at.slopes), round((budget - at.base) / at.slopes[0]))
        assert abs(at.base + units * at.slopes[0] - budget) == abs(other - budget)
        assert abs(other - budget) > 1e-3 * budget
        return
    assert abs(cost(other).body - budget) <= 1e-3 * budget
    assert (other.layers, other.step) == (reference.layers, reference.step)
    assert other.scheme == scheme(target)
    assert same_otherwise(reference, other)
    assert type(other)(**other.to_dict()).to_dict() == other.to_dict()


@settings(max_examples=10)
@given(references(), TARGETS)
def test_a_twin_has_equal_flops_or_there_is_none(reference: SplitstepConfig, target: str) -> None:
    budget = cost(reference).flops
    other = twin_or_nearest(reference, target, "flops")
    if isinstance(other, int):
        assert abs(other - budget) > 1e-2 * budget
        return
    assert abs(cost(other).flops - budget) <= 1e-2 * budget
    for (_, n), (_, m) in zip(reference.stacks(), other.stacks(), strict=True):
        assert n * reference.step == pytest.approx(m * other.step)
    assert same_otherwise(reference, other)


@pytest.mark.parametrize("row", sorted(SCHEMES.keys() - {"macaron", "macaron-postnorm", "conformer", "suzuki4"}))
def test_the_nearest_depth_comes_first(row: str) -> None:
    reference = ss.CausalConfig(layers=6, width=64, heads=4, ffn=256)
    head = 2 * 64 * reference.vocab_size
    alone = cost(ss.CausalConfig(layers=6, width=64, heads=4, ffn=256, scheme=row), 64)
    depth = 6 * (cost(reference, 64).flops - head) / (alone.flops - head)
    assert twin(reference, row, "flops", 64).layers == max(1, floor(depth + 0.5))


@pytest.mark.parametrize(("layers", "ffn"), [(1, 1), (1, 7), (2, 2), (5, 40)])
@pytest.mark.parametrize("target", ["rk4", "strang-midpoint", "macaron"])
def test_no_depth_and_width_come_nearer_where_there_is_no_twin(target: str, layers: int, ffn: int) -> None:
    shape: dict[str, Any] = dict(width=4, heads=2, max_positions=8)
    reference = ss.SequenceConfig(**shape, layers=layers, ffn=ffn)
    budget = cost(reference).flops
    lines = [line("flops", ss.SequenceConfig(**shape, layers=n, scheme=target), 8) for n in range(1, 11)]
    best = min(
        abs(round(at.at(spread(w, 1, extra, len(at.slopes))) / 8) - budget)
        for at in lines
        for w in range(1, 60)
        for extra in range(len(at.slopes))
    )
    if best <= 1e-2 * budget:
        assert abs(cost(twin(reference, target, "flops")).flops - budget) <= 1e-2 * budget
    else:
        nearest = twin_or_nearest(reference, target, "flops")
        assert isinstance(nearest, int)
        assert abs(nearest - budget) == best


@settings(max_examples=50)
@given(
    st.integers(0, 200),
    st.lists(st.sampled_from([3, 5]), min_size=1, max_size=5),
    st.integers(0, 1000),
    st.sampled_from([1, 8]),
)
def test_no_neighbouring_widths_come_nearer(base: int, slopes: list[int], budget: int, unit: int) -> None:
    at = Line(base, slopes)
    low = max(unit, (budget - base) // sum(slopes) // unit * unit)
    chosen = nearest_mix(low, unit, at, budget)
    assert set(chosen) <= {low, low + unit}
    best = min(
        abs(at.at(widths) - budget)
        for start in range(unit, low + 3 * unit, unit)
        for widths in product((start, start + unit), repeat=len(slopes))
    )
    assert abs(at.at(chosen) - budget) == best
    if len(set(slopes)) == 1:  # then no widths at all do
        units = range(unit * len(slopes), len(slopes) * (low + 3 * unit), unit)
        assert best == min(abs(base + slopes[0] * n - budget) for n in units)
