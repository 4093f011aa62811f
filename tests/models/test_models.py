"""The models: what is saved comes back bit for bit, losses are cross-entropies, masks hold, for every row."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers.utils import logging

import splitstep as ss
from splitstep.fields import Context, FeedForward, FieldSpec, SelfAttention, norm, rotary
from splitstep.models import KINDS as REGISTRY
from splitstep.models.inputs import Text
from splitstep.shape import FORMAT

B, T, D, HEADS, VOCAB = 3, 7, 16, 4, 23
SHAPE: dict[str, Any] = {"layers": 2, "width": D, "heads": HEADS, "ffn": 24, "init_std": 0.3}
TEXT: dict[str, Any] = {**SHAPE, "vocab_size": VOCAB, "max_positions": 16, "pad_token_id": 0}
ROWS = list(ss.SCHEMES)
AUTO = {
    "causal": transformers.AutoModelForCausalLM,
    "masked": transformers.AutoModelForMaskedLM,
    "sequence": transformers.AutoModelForSequenceClassification,
    "image": transformers.AutoModelForImageClassification,
    "translation": transformers.AutoModelForSeq2SeqLM,
}
KINDS = list(AUTO)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable_progress_bar()
    yield
    logging.enable_progress_bar()


def build(kind: str, scheme: str = "macaron", **more: Any) -> Any:
    special: dict[str, dict[str, Any]] = {
        "masked": {"token_types": 2, "embedding_norm": True},
        "sequence": {"num_labels": 5},
        "image": {"num_labels": 10, "image_size": 8, "patch": 4, "channels": 3},
        "translation": {"decoder_layers": 3, "embedding_scale": 4.0, "init": "normal"},
    }
    shape = SHAPE if kind == "image" else TEXT
    torch.manual_seed(0)
    config = REGISTRY[kind].config(scheme=scheme, **(shape | special.get(kind, {}) | more))
    return AUTO[kind].from_config(config)


def tokens(seed: int = 1) -> Tensor:
    return torch.randint(3, VOCAB, (B, T), generator=torch.Generator().manual_seed(seed))


def inputs(kind: str) -> dict[str, Tensor]:
    mask = (torch.arange(T) < torch.tensor([[T], [T - 3], [T - 1]])).long()
    if kind == "image":
        return {"pixel_values": torch.randn(B, 3, 8, 8, generator=torch.Generator().manual_seed(1))}
    given = {"input_ids": tokens(), "attention_mask": mask}
    if kind == "masked":
        given["token_type_ids"] = (torch.arange(T) > 3).long().expand(B, T)
    if kind == "translation":
        given["decoder_input_ids"] = tokens(2)
    return given


# Saving and loading


@pytest.mark.parametrize("scheme", ["macaron", "lie-postnorm", "suzuki4", "symmetrised-heun", "reversible"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_auto_class_round_trip_is_bit_identical(kind: str, scheme: str, tmp_path: Path) -> None:
    model = build(kind, scheme).eval()
    model.save_pretrained(tmp_path)
    files = {path.name for path in tmp_path.iterdir()}
    assert files <= {"config.json", "generation_config.json", "model.safetensors", "splitstep_models.py"}
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["scheme"] == str(ss.scheme(scheme)) != scheme
    assert ss.scheme(stored["scheme"]) == ss.SCHEMES[scheme]
    assert stored["format"] == FORMAT
    again = AUTO[kind].from_pretrained(tmp_path)
    assert type(again) is type(model)
    nameless = {"_name_or_path": ""}
    assert again.config.to_dict() | nameless == model.config.to_dict() | nameless
    before, after = model.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(model(**inputs(kind)).logits, again(**inputs(kind)).logits)
    twice = tmp_path / "twice"
    again.save_pretrained(twice)
    assert (twice / "config.json").read_bytes() == (tmp_path / "config.json").read_bytes()
    assert (twice / "model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_usual_names_of_the_config_work(kind: str) -> None:
    config = build(kind, kv_heads=2, head_size=6).config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (D, 2, HEADS)
    assert (config.head_dim, build(kind).config.head_dim) == (6, None)
    assert (config.num_key_value_heads, config.intermediate_size) == (2, 24)
    assert config.max_position_embeddings == config.max_positions
    usual = REGISTRY[kind].config(hidden_size=24, num_hidden_layers=3, num_attention_heads=6, intermediate_size=8)
    assert (usual.width, usual.layers, usual.heads, usual.ffn) == (24, 3, 6, 8)
    assert "hidden_size" not in usual.to_dict()
    usual.hidden_size = 48
    assert usual.width == 48


@pytest.mark.parametrize("kind", ["causal", "masked", "translation"])
def test_the_output_matrix_is_the_embedding_unless_untied(kind: str, tmp_path: Path) -> None:
    tied, untied = build(kind), build(kind, tie_word_embeddings=False)
    assert tied.get_output_embeddings().weight is tied.get_input_embeddings().weight
    assert untied.get_output_embeddings().weight is not untied.get_input_embeddings().weight
    assert untied.num_parameters() - tied.num_parameters() == VOCAB * D
    for model, same in ((tied, True), (untied, False)):
        model.save_pretrained(tmp_path)
        again = AUTO[kind].from_pretrained(tmp_path)
        assert (again.get_output_embeddings().weight is again.get_input_embeddings().weight) == same


# Initialisation


def test_normal_initialisation_has_its_spread_and_zero_biases() -> None:
    model = build("causal", "lie", width=64, ffn=256, init_std=0.02, vocab_size=500)
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            w = module.weight[1:] if isinstance(module, nn.Embedding) else module.weight
            assert abs(w.std().item() / 0.02 - 1) < 6 / math.sqrt(2 * w.numel())
            assert abs(w.mean().item()) < 6 * 0.02 / math.sqrt(w.numel())
        if isinstance(module, nn.Linear) and module.bias is not None:
            assert (module.bias == 0).all()
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()
    assert (model.embedding.tokens.weight[0] == 0).all()  # the padding row


def test_xavier_initialisation_has_its_bounds_and_the_embedding_of_the_paper() -> None:
    model = build("translation", "macaron", width=64, ffn=128, init="xavier", vocab_size=500)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not model.head:
            fan_out, fan_in = module.weight.shape
            bound = math.sqrt(6 / (fan_in + fan_out))
            assert module.weight.abs().max() <= bound
            assert module.weight.abs().max() > 0.99 * bound
            assert (module.bias == 0).all()
    table = model.encoder.embedding.tokens.weight
    assert (table[0] == 0).all()
    assert abs(table[1:].std().item() * 8 - 1) < 0.03  # N(0, d^-1/2)
    assert model.head.weight is table


@pytest.mark.parametrize("kind", ["causal", "sequence", "translation"])
def test_rotary_attention_begins_local_with_a_rotary_bias(kind: str) -> None:
    """Without content (weights of zero) scores at distance d are 2 c^2 sum_f cos(w_f d) / sqrt(size)."""
    c, base, size = 1.5, 50.0, 8
    model = build(kind, positions="rotary", rotary_base=base, rotary_bias=c, heads=2).double()
    fields = [module for module in model.modules() if isinstance(module, SelfAttention)]
    assert fields
    distance = torch.arange(T)[:, None] - torch.arange(T)
    rates = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    scores = 2 * c * c * (distance[..., None] * rates).cos().sum(-1) / math.sqrt(size)
    turns = rotary(torch.arange(T)[None], size, base)
    for field in fields:
        assert (field.qkv.bias[: 2 * D] == c).all()
        assert (field.qkv.bias[2 * D :] == 0).all()
        with torch.no_grad():
            field.qkv.weight[: 2 * D] = 0
            field.qkv.weight[2 * D :] = torch.eye(D)
            field.out.weight[:] = torch.eye(D)
            field.norm = nn.Identity()
        x = torch.randn(1, T, D, dtype=torch.float64)
        found = field(0.0, x, Context(rotary=turns))
        assert torch.allclose(found, scores.softmax(-1) @ x, atol=1e-6)  # angles are in single precision
    others = [p for name, p in model.named_parameters() if name.endswith("bias") and "qkv" not in name]
    assert all((p == 0).all() for p in others)


def test_a_loaded_model_keeps_what_its_rotary_biases_became(tmp_path: Path) -> None:
    model = build("causal", positions="rotary", rotary_bias=1.0)
    field = next(module for module in model.modules() if isinstance(module, SelfAttention))
    nn.init.normal_(field.qkv.bias)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    found = next(module for module in again.modules() if isinstance(module, SelfAttention))
    assert torch.equal(found.qkv.bias, field.qkv.bias)


def test_the_padding_row_gets_no_gradient_from_the_input() -> None:
    model = build("sequence")
    given = inputs("sequence")
    given["input_ids"] = given["input_ids"] * given["attention_mask"]
    model(**given, labels=torch.tensor([0, 1, 2])).loss.backward()
    assert (model.encoder.embedding.tokens.weight.grad[0] == 0).all()


# Losses


def brute_force(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Sum over the labels that count, one by one."""
    total = torch.zeros(())
    for row, label in zip(logits.flatten(0, -2), labels.flatten().tolist(), strict=True):
        if label != -100:
            logp = row - row.exp().sum().log()
            total = total - (1 - smoothing) * logp[label] - smoothing * logp.mean()
    return total


def ignoring(labels: Tensor) -> Tensor:
    labels = labels.clone()
    labels[0, 2:4] = -100
    labels[2, 0] = -100
    return labels


@pytest.mark.parametrize("items", [None, 40, torch.tensor(40)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_cross_entropy_over_the_labels_that_count(kind: str, items: Any) -> None:
    smoothing = 0.1 if kind == "translation" else 0.0
    model = build(kind, **({"label_smoothing": smoothing} if smoothing else {})).eval()
    given = inputs(kind)
    labels = torch.tensor([1, -100, 4]) if kind in ("sequence", "image") else ignoring(tokens(5))
    out = model(**given, labels=labels, num_items_in_batch=items)
    logits, wanted = out.logits, labels
    if kind == "causal":
        logits, wanted = logits[:, :-1], labels[:, 1:]
    total = brute_force(logits.detach(), wanted, smoothing)
    count = (wanted != -100).sum() if items is None else items
    torch.testing.assert_close(out.loss.detach(), total / count, atol=1e-5, rtol=1e-5)


def test_a_translation_reads_its_labels_moved_by_one() -> None:
    model = build("translation").eval()
    labels = ignoring(tokens(5))
    source = {k: v for k, v in inputs("translation").items() if k != "decoder_input_ids"}
    moved = torch.cat((torch.full((B, 1), 1), labels[:, :-1]), 1)
    moved[moved == -100] = 0
    assert torch.equal(model.prepare_decoder_input_ids_from_labels(labels), moved)
    torch.testing.assert_close(
        model(**source, labels=labels).logits, model(**source, decoder_input_ids=moved).logits, atol=0, rtol=0
    )


def test_pooling_is_the_mean_over_real_tokens_or_the_first_token() -> None:
    given = inputs("sequence")
    for pool in ("mean", "first"):
        model = build("sequence", pool=pool).eval()
        states = model.encoder(Text(given["input_ids"], given["attention_mask"]))
        for i in range(B):
            n = int(given["attention_mask"][i].sum())
            vector = states[i, :n].mean(0) if pool == "mean" else states[i, 0]
            torch.testing.assert_close(model(**given).logits[i], model.head(vector), atol=1e-5, rtol=1e-5)


def test_patches_are_cut_in_reading_order() -> None:
    model = build("image")
    pixels = torch.randn(2, 3, 8, 8)
    cut = model.cut(pixels)
    expected = [pixels[:, :, 4 * i : 4 * i + 4, 4 * j : 4 * j + 4].flatten(1) for i in range(2) for j in range(2)]
    assert torch.equal(cut, torch.stack(expected, 1))


# What observers see


@pytest.mark.parametrize("scheme", ROWS)
def test_hidden_states_are_the_states_at_the_start_of_every_step_and_the_last(scheme: str) -> None:
    model = build("causal", scheme).eval()
    ids = tokens()
    starts: dict[int, Tensor] = {}

    def watch(event: ss.Event) -> None:
        if event.site.part == 0 and event.site.branch == 0:
            starts[event.site.step] = sum(event.state) / 2 if ss.scheme(scheme).doubled else event.state

    out = model(ids, output_hidden_states=True, observe=watch)
    states = out.hidden_states
    assert len(states) == 2 + 1
    assert torch.equal(states[0], model.embedding(Text(ids), past=0)[0])
    assert all(torch.equal(states[i], starts[i]) for i in range(2))
    assert torch.equal(model.head(states[-1]), out.logits)
    first = build("causal", scheme, layers=1).eval()
    first.load_state_dict({name: w for name, w in model.state_dict().items() if ".layers.1." not in name})
    x, context = first.embedding(Text(ids), past=0)
    assert torch.equal(states[1], first.body.stack(x, context))  # as if the network ended there
    assert model(ids).hidden_states is None
    assert torch.equal(model(ids).logits, out.logits)  # being watched changes nothing


@pytest.mark.parametrize("scheme", ROWS)
@pytest.mark.parametrize("kind", ["causal", "translation"])
def test_events_hold_one_increment_per_field_and_add_up(kind: str, scheme: str) -> None:
    model = build(kind, scheme).eval()
    events: list[ss.Event] = []
    model(**inputs(kind), observe=events.append)
    stacks = [model.body.stack] if kind == "causal" else [model.encoder.body.stack, model.decoder.stack]
    assert len(events) == sum(len(s.layers) * sum(len(p) for _, p in s.scheme.plan) for s in stacks)
    for event in events:
        assert set(event.increments) == set(event.move.fields)
        total = event.x + sum(event.increments.values())
        torch.testing.assert_close(event.x_after, total, atol=1e-5, rtol=1e-5)
    assert [e.t for e in events if e.site.part == 0 and e.site.branch == 0][:2] == [0.0, 1.0]


# Masks


# Precision, gradients, compilation


@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("scheme", ["lie", "lie-postnorm", "macaron", "rk4", "reversible"])
@pytest.mark.parametrize("kind", ["causal", "image", "translation"])
def test_the_stream_stays_float32_under_autocast(kind: str, scheme: str, positions: str) -> None:
    model = build(kind, scheme, positions=positions).eval()
    seen: set[torch.dtype] = set()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(**inputs(kind), observe=lambda event: seen.update((event.x.dtype, event.x_after.dtype))).logits
    assert seen == {torch.float32}
    exact = model(**inputs(kind)).logits
    assert (logits - exact).norm() < 0.2 * exact.norm()


@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("kind", KINDS)
def test_models_run_in_bfloat16_throughout(kind: str, positions: str) -> None:
    model = build(kind, positions=positions, dtype=torch.bfloat16).bfloat16().eval()
    given = {k: v.bfloat16() if v.is_floating_point() else v for k, v in inputs(kind).items()}
    assert model(**given).logits.dtype == torch.bfloat16


def plain_stack(scheme: str) -> ss.Stack:
    torch.manual_seed(0)

    def make(name: str, layer: int) -> nn.Module:
        spec = FieldSpec(D, partial(norm, "layer", D), heads=HEADS, ffn=32)
        return SelfAttention(spec) if name[0] == "A" else FeedForward(spec)

    return ss.Stack(ss.scheme(scheme), 2, make).train()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["macaron", pytest.param("a:A+F b:F @midpoint", marks=pytest.mark.nightly)])
def test_inductor_compiles_forward_and_backward_in_one_graph(scheme: str) -> None:
    stack = plain_stack(scheme)
    x = torch.randn(B, T, D, requires_grad=True)
    g = torch.randn(B, T, D)
    wanted = [x, *stack.parameters()]
    eager = stack(x, Context(causal=True))
    expected = torch.autograd.grad(eager, wanted, g)
    torch.compiler.reset()
    compiled = torch.compile(stack, fullgraph=True)(x, Context(causal=True))
    torch.testing.assert_close(compiled, eager, atol=1e-5, rtol=1e-5)
    for mine, other in zip(torch.autograd.grad(compiled, wanted, g), expected, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("padded", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_compiled_layers_read_the_cosines_of_rotary_positions(padded: bool) -> None:
    """They are worked out once a pass: no kernel of a layer, forward or backward, holds a cosine."""
    from torch._inductor.utils import run_and_get_code

    model, ids = build("causal", positions="rotary", layers=2).train(), tokens()
    mask = inputs("causal")["attention_mask"] if padded else None
    expected = model(ids, mask, labels=ids).loss
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True)

    def update() -> Tensor:
        loss = compiled(ids, mask, labels=ids).loss
        loss.backward()
        return loss

    loss, codes = run_and_get_code(update)
    torch.testing.assert_close(loss, expected)
    assert len(codes) == 2
    assert not any(re.search(r"\b(cos|sin)\(", code) for code in codes)
    assert codes[0].count("torch.ops.splitstep.angle_table.default(") == 1


@pytest.mark.parametrize("kind", ["causal", "masked", "sequence", "translation"])
def test_the_vocabulary_can_grow(kind: str) -> None:
    """Hugging Face replaces the embedding, and the output matrix with it where the two are tied."""
    shape: dict[str, Any] = dict(layers=1, width=16, heads=2, ffn=32, vocab_size=20, max_positions=8)
    model: Any = REGISTRY[kind].model(REGISTRY[kind].config(**shape)).eval()
    known = torch.randint(4, 20, (2, 5))
    labels = {"labels": torch.zeros(2, dtype=torch.long)} if kind == "sequence" else {"labels": known}
    before = model(known, **labels).logits
    model.resize_token_embeddings(23)
    after = model(known, **labels).logits
    if kind == "sequence":
        assert torch.equal(after, before)
    else:
        assert after.shape[-1] == 23
        torch.testing.assert_close(after[..., :20], before)
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model(torch.full((1, 3), 22), labels=labels["labels"][:1] if kind == "sequence" else known[:1, :3]).loss > 0


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"head_size": 0}, "head_size=0 must be a positive number."),
        ({"head_size": 10**8}, "4 heads of head_size=100000000 are too wide together: use at most 100,000,000."),
        ({"head_size": 3, "positions": "rotary"}, "need heads of an even width; got 3."),
        ({"width": 15}, "Width 15 is not divisible by 4 heads: use heads=3 or width=12, or give a head_size."),
    ],
)
def test_a_wrong_size_of_heads_is_refused(entries: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(says)}$"):
        ss.CausalConfig(**(TEXT | entries))
