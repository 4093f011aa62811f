"""The models: what is saved comes back bit for bit, losses are cross-entropies, what is watched is what happened."""

import gc
import json
import math
import re
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import LENGTH, VOCAB, inputs, right_mask, tiny, tokens
from tiny import labels as labels_of
from torch import Tensor, nn

import splitstep as ss
from splitstep.fields import Context, SelfAttention, rotary
from splitstep.models import KINDS
from splitstep.models.inputs import Text
from splitstep.shape import FORMAT

WIDTH = 16
ROWS = ["lie", "lie-postnorm", "strang-midpoint", "rk4", "reversible"]
SPECIAL: dict[str, dict[str, Any]] = {
    "masked": {"token_types": 2, "embedding_norm": True},
    "translation": {"decoder_layers": 3, "embedding_scale": 4.0, "tie_word_embeddings": True},
    "causal": {"tie_word_embeddings": True},
}
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
SEQ_IDX = torch.tensor([[0] * 5 + [1] + [2] * 6, [0] * 12, [0] * 2 + [1] * 3 + [2] * 7])  # texts of packed rows


def build(kind: str, scheme: str = "macaron", **more: Any) -> Any:
    return tiny(kind, scheme, sharp=False, **(SPECIAL.get(kind, {}) | more))


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [*((kind, "macaron") for kind in KINDS), *(("causal", one) for one in ("lie-postnorm", "suzuki4", "reversible"))],
)
def test_the_auto_class_round_trip_is_bit_identical(kind: str, scheme: str, tmp_path: Path) -> None:
    model = build(kind, scheme)
    model.save_pretrained(tmp_path)
    files = {path.name for path in tmp_path.iterdir()}
    assert files <= {"config.json", "generation_config.json", "model.safetensors", "splitstep_models.py"}
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["scheme"] == str(ss.scheme(scheme)) != scheme
    assert ss.scheme(stored["scheme"]) == ss.SCHEMES[scheme]
    assert stored["format"] == FORMAT
    again = KINDS[kind].auto.from_pretrained(tmp_path)
    assert type(again) is type(model)
    nameless = {"_name_or_path": ""}
    assert again.config.to_dict() | nameless == model.config.to_dict() | nameless
    before, after = model.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(model(**inputs(kind)).logits, again(**inputs(kind)).logits)
    twice = tmp_path / "twice"
    again.save_pretrained(twice)
    for name in ("config.json", "model.safetensors"):
        assert (twice / name).read_bytes() == (tmp_path / name).read_bytes()


def test_the_usual_names_of_the_config_work() -> None:
    for kind in KINDS:
        config = build(kind, kv_heads=2, head_size=6).config
        assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (WIDTH, 2, 4)
        assert (config.head_dim, build(kind).config.head_dim) == (6, None)
        assert (config.num_key_value_heads, config.intermediate_size) == (2, 24)
        assert config.max_position_embeddings == config.max_positions
        usual = KINDS[kind].config(hidden_size=24, num_hidden_layers=3, num_attention_heads=6, intermediate_size=8)
        assert (usual.width, usual.layers, usual.heads, usual.ffn) == (24, 3, 6, 8)
        assert "hidden_size" not in usual.to_dict()
        usual.hidden_size = 48
        assert usual.width == 48


@pytest.mark.parametrize("kind", ["causal", "masked", "translation"])
def test_the_output_matrix_is_the_embedding_unless_untied(kind: str, tmp_path: Path) -> None:
    tied, untied = build(kind), build(kind, tie_word_embeddings=False)
    assert untied.num_parameters() - tied.num_parameters() == VOCAB * WIDTH
    for model, same in ((tied, True), (untied, False)):
        model.save_pretrained(tmp_path)
        for one in (model, KINDS[kind].auto.from_pretrained(tmp_path)):
            assert (one.get_output_embeddings().weight is one.get_input_embeddings().weight) == same


@pytest.mark.parametrize("kind", ["causal", "masked", "sequence", "translation"])
def test_the_vocabulary_can_grow(kind: str) -> None:
    """Hugging Face replaces the embedding, and the output matrix with it where the two are tied."""
    model, known = build(kind), tokens()
    given = {"labels": labels_of(kind)}
    before = model(known, **given).logits
    model.resize_token_embeddings(VOCAB + 3)
    after = model(known, **given).logits
    torch.testing.assert_close(after if kind == "sequence" else after[..., :VOCAB], before)
    if kind != "sequence":
        assert after.shape[-1] == VOCAB + 3
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model(torch.full((3, LENGTH), VOCAB + 2), **given).loss > 0


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
            assert 0.99 * bound < module.weight.abs().max() <= bound
            assert (module.bias == 0).all()
    table = model.encoder.embedding.tokens.weight
    assert (table[0] == 0).all()
    assert abs(table[1:].std().item() * 8 - 1) < 0.03  # N(0, d^-1/2)
    assert model.head.weight is table


@pytest.mark.parametrize("kind", ["causal", "translation"])
def test_rotary_attention_begins_local_with_a_rotary_bias(kind: str) -> None:
    """Without content (weights of zero) scores at distance d are 2 c^2 sum_f cos(w_f d) / sqrt(size)."""
    c, base, size = 1.5, 50.0, 8
    model = build(kind, positions="rotary", rotary_base=base, letters={"A": {"bias_start": c}}, heads=2).double()
    fields = [module for module in model.modules() if isinstance(module, SelfAttention)]
    assert fields
    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    rates = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    scores = 2 * c * c * (distance[..., None] * rates).cos().sum(-1) / math.sqrt(size)
    turns = rotary(torch.arange(LENGTH)[None], size, base)
    for field in fields:
        assert (field.qkv.bias[: 2 * WIDTH] == c).all()
        assert (field.qkv.bias[2 * WIDTH :] == 0).all()
        with torch.no_grad():
            field.qkv.weight[: 2 * WIDTH] = 0
            field.qkv.weight[2 * WIDTH :] = torch.eye(WIDTH)
            field.out.weight[:] = torch.eye(WIDTH)
            field.norm = nn.Identity()
        x = torch.randn(1, LENGTH, WIDTH, dtype=torch.float64)
        found = field(0.0, x, Context(rotary=turns))
        assert torch.allclose(found, scores.softmax(-1) @ x, atol=1e-6)  # angles are in single precision
    others = [p for name, p in model.named_parameters() if name.endswith("bias") and "qkv" not in name]
    assert all((p == 0).all() for p in others)


def test_sandwich_norms_normalise_what_a_network_returns() -> None:
    model, seen = build("causal", "A F", norm_at="both"), list[Tensor]()
    model(tokens(), use_cache=False, observe=lambda event: seen.extend(event.increments.values()))
    for added in seen:
        torch.testing.assert_close(added.mean(-1), torch.zeros(3, LENGTH), **CLOSE)
        torch.testing.assert_close(added.std(-1, correction=0), torch.ones(3, LENGTH), rtol=0, atol=1e-2)
    bare = build("causal", "A F", norm_at="both", norm="none")
    assert not [m for m in bare.modules() if isinstance(m, nn.LayerNorm)]


def test_the_padding_row_gets_no_gradient_from_the_input() -> None:
    model, given = build("sequence"), inputs("sequence")
    given["input_ids"] = given["input_ids"] * given["attention_mask"]
    model(**given, labels=labels_of("sequence")).loss.backward()
    assert (model.encoder.embedding.tokens.weight.grad[0] == 0).all()


SMOOTH: dict[str, Any] = dict(width=32, heads=4, ffn=48, vocab_size=50, max_positions=8, init_modes=3)


def smooth(layers: int, seed: int = 0, kind: str = "causal", **more: Any) -> Any:
    torch.manual_seed(seed)
    return KINDS[kind].model(KINDS[kind].config(**{**SMOOTH, "layers": layers, "step": 6 / layers, **more}))


def up(model: Any) -> Tensor:
    return torch.stack([layer["F"].up.weight for layer in model.body.stack.layers]).detach()


def test_networks_of_all_depths_of_one_seed_share_their_start_at_equal_times() -> None:
    coarse, fine = smooth(3), smooth(9)  # the middles of the 3 layers are middles of every third of the 9
    assert torch.equal(up(coarse), up(fine)[1::3])
    ours, theirs = coarse.state_dict(), fine.state_dict()
    outside = [name for name in ours if ".stack.layers." not in name]
    assert len(outside) >= 4
    assert all(torch.equal(ours[name], theirs[name]) for name in outside)
    assert torch.equal(up(smooth(3, 1)), up(smooth(3, 1)))
    assert not torch.equal(up(coarse), up(smooth(3, 1)))
    assert torch.initial_seed() == 1  # the generator goes on


@pytest.mark.parametrize("init", ["normal", "xavier"])
def test_every_layer_has_the_variance_of_the_usual_initialisation(init: str) -> None:
    waves, plain = up(smooth(6, init=init)), up(smooth(6, init=init, init_modes=0))
    for layer in waves:
        assert float(layer.std()) == pytest.approx(float(plain.std()), rel=0.05)


def test_embeddings_biases_and_norms_start_as_usual(tmp_path: Path) -> None:
    model = smooth(2, init="xavier")
    assert model.head.weight is model.embedding.tokens.weight
    assert float(model.head.weight.detach().std()) == pytest.approx(32**-0.5, rel=0.05)
    assert all((m.weight == 1).all() for m in model.modules() if isinstance(m, nn.LayerNorm))
    assert not any(m.bias.any() for m in model.modules() if isinstance(m, nn.Linear) and m.bias is not None)
    model.save_pretrained(tmp_path)
    assert torch.equal(up(type(model).from_pretrained(tmp_path)), up(model))


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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "vectors"])
def test_the_loss_is_cross_entropy_over_the_labels_that_count(kind: str) -> None:
    smoothing = 0.1 if kind == "translation" else 0.0
    model = build(kind, **({"label_smoothing": smoothing} if smoothing else {}))
    labels = torch.tensor([1, -100, 2]) if kind in ("sequence", "image") else ignoring(tokens(5))
    for items in (None, 40, torch.tensor(40)):
        out = model(**inputs(kind), labels=labels, num_items_in_batch=items)
        logits, wanted = out.logits, labels
        if kind == "causal":
            logits, wanted = logits[:, :-1], labels[:, 1:]
        total = brute_force(logits.detach(), wanted, smoothing)
        count = (wanted != -100).sum() if items is None else items
        torch.testing.assert_close(out.loss.detach(), total / count, **CLOSE)


def test_a_translation_reads_its_labels_moved_by_one() -> None:
    model, labels = build("translation"), ignoring(tokens(5))
    source = {k: v for k, v in inputs("translation").items() if k != "decoder_input_ids"}
    moved = torch.cat((torch.full((3, 1), 1), labels[:, :-1]), 1)
    moved[moved == -100] = 0
    assert torch.equal(model.prepare_decoder_input_ids_from_labels(labels), moved)
    assert torch.equal(model(**source, labels=labels).logits, model(**source, decoder_input_ids=moved).logits)


def test_pooling_is_the_mean_over_real_tokens_or_the_first_token() -> None:
    given = inputs("sequence")
    for pool in ("mean", "first"):
        model = build("sequence", pool=pool)
        states = model.encoder(Text(given["input_ids"], given["attention_mask"]))
        for i, n in enumerate(right_mask().sum(1)):
            vector = states[i, :n].mean(0) if pool == "mean" else states[i, 0]
            torch.testing.assert_close(model(**given).logits[i], model.head(vector), **CLOSE)


def test_patches_are_cut_in_reading_order() -> None:
    pixels = torch.randn(2, 3, 8, 8)
    expected = [pixels[:, :, 4 * i : 4 * i + 4, 4 * j : 4 * j + 4].flatten(1) for i in range(2) for j in range(2)]
    assert torch.equal(build("image", channels=3).cut(pixels), torch.stack(expected, 1))


def test_logits_and_loss_at_masked_positions_are_those_of_all_positions() -> None:
    """In packed rows, compiled as well; the model without a head packs too."""
    model, ids = tiny("masked"), tokens(length=12)
    at = torch.tensor([[0, 3, 11], [2, 5, 6], [1, 4, 10]])
    few = tokens(1, 3, 3)
    every = torch.full((3, 12), -100).scatter(1, at, few)
    one, two = model(ids, labels=every, seq_idx=SEQ_IDX), model(ids, labels=few, masked_positions=at, seq_idx=SEQ_IDX)
    assert two.logits.shape == (3, 3, VOCAB)
    torch.testing.assert_close(two.logits, one.logits.gather(1, at[..., None].expand(-1, -1, VOCAB)), **CLOSE)
    torch.testing.assert_close(two.loss, one.loss, **CLOSE)
    gradients = [torch.autograd.grad(out.loss, list(model.parameters())) for out in (one, two)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)
    compiled: Any = torch.compile(model, fullgraph=True, backend="eager")
    again = compiled(ids, labels=few, masked_positions=at, seq_idx=SEQ_IDX)
    torch.testing.assert_close(again.loss, two.loss, **CLOSE)
    bare = ss.models.SplitstepMaskedModel(model.config).eval()
    packed, alone = bare(ids, seq_idx=SEQ_IDX).last_hidden_state, bare(ids[:1, 6:]).last_hidden_state
    torch.testing.assert_close(packed[0, 6:], alone[0], **CLOSE)


def test_padding_behind_packed_texts_influences_nothing() -> None:
    model, ids = tiny("masked"), tokens(length=12)
    mask = (torch.arange(12) < torch.tensor([[9], [12], [8]])).long()
    found = model(ids, attention_mask=mask, seq_idx=SEQ_IDX).logits
    changed = torch.where(mask.bool(), ids, ids.flip(0))
    assert torch.equal(found[mask.bool()], model(changed, attention_mask=mask, seq_idx=SEQ_IDX).logits[mask.bool()])
    torch.testing.assert_close(found[0, 6:9], model(ids[:1, 6:9]).logits[0], **CLOSE)
    assert found.isfinite().all()


@pytest.mark.parametrize("scheme", ROWS)
def test_hidden_states_are_the_states_at_the_start_of_every_step_and_the_last(scheme: str) -> None:
    model, ids = build("causal", scheme), tokens()
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
    first = build("causal", scheme, layers=1)
    first.load_state_dict({name: w for name, w in model.state_dict().items() if ".layers.1." not in name})
    x, context = first.embedding(Text(ids), past=0)
    assert torch.equal(states[1], first.body.stack(x, context))  # as if the network ended there
    assert model(ids).hidden_states is None
    assert torch.equal(model(ids).logits, out.logits)  # being watched changes nothing


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_was_asked_for_is_freed_without_the_garbage_collector(kind: str) -> None:
    model = tiny(kind)
    gc.disable()
    try:
        output = model(**inputs(kind), output_hidden_states=True, output_attentions=True)
        found = [x for name, kept in output.items() if name.endswith(("hidden_states", "attentions")) for x in kept]
        alive = [weakref.ref(x) for x in found]
        assert len(alive) >= 5
        assert all(x.grad_fn is not None for x in found)
        del output, found
        assert not [one for one in alive if one() is not None]
    finally:
        gc.enable()


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize(("kind", "scheme"), [("causal", "reversible"), ("image", "lie"), ("translation", "rk4")])
def test_the_stream_stays_float32_under_autocast(kind: str, scheme: str, positions: str) -> None:
    model, seen = build(kind, scheme, positions=positions), set[torch.dtype]()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(**inputs(kind), observe=lambda event: seen.update((event.x.dtype, event.x_after.dtype))).logits
    assert seen == {torch.float32}
    exact = model(**inputs(kind)).logits
    assert (logits - exact).norm() < 0.2 * exact.norm()


@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("kind", KINDS)
def test_models_run_in_bfloat16_throughout(kind: str, positions: str) -> None:
    model = build(kind, positions=positions, dtype=torch.bfloat16).bfloat16()
    given = {k: v.bfloat16() if v.is_floating_point() else v for k, v in inputs(kind).items()}
    assert model(**given).logits.dtype == torch.bfloat16


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["sequence", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("causal", "image"))]
)
def test_a_compiled_model_with_diffusion_is_one_graph_and_agrees(kind: str) -> None:
    model = tiny(kind, "D/2@exact A F S D/2")
    torch.compiler.reset()
    compiled: Any = torch.compile(model, fullgraph=True, backend="eager")
    found, expected = (each(**inputs(kind), use_cache=False).logits for each in (compiled, model))
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("padded", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_compiled_layers_read_the_cosines_of_rotary_positions(padded: bool) -> None:
    """They are worked out once a pass: no kernel of a layer, forward or backward, holds a cosine. Forward and backward
    pass are a graph each, and agree with what is not compiled."""
    from torch._inductor.utils import run_and_get_code

    model, ids = build("causal", positions="rotary").train(), tokens()
    mask = right_mask() if padded else None
    expected = model(ids, mask, labels=ids).loss
    slopes = torch.autograd.grad(expected, list(model.parameters()))
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True)

    def update() -> Tensor:
        loss = compiled(ids, mask, labels=ids).loss
        loss.backward()
        return loss

    loss, codes = run_and_get_code(update)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close([p.grad for p in model.parameters()], list(slopes), atol=1e-4, rtol=1e-4)
    assert len(codes) == 2
    assert not any(re.search(r"\b(cos|sin)\(", code) for code in codes)
    assert codes[0].count("torch.ops.splitstep.angle_table.default(") == 1
