"""Known networks are schemes: with the same weights the outputs are the same. Dropout is that of the papers."""

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from their_weights import copy_all, layers
from torch import Tensor, nn

import splitstep as ss
from splitstep.fields import Context, CrossAttention, FeedForward, FieldSpec, Projection, SelfAttention, dropout, norm
from splitstep.kernels.dropout import keep
from splitstep.models.body import sinusoids

B, T, D, HEADS, INNER, VOCAB = 3, 9, 32, 4, 48, 61
SHAPE: dict[str, Any] = {"layers": 2, "width": D, "heads": HEADS, "ffn": INNER, "vocab_size": VOCAB}
TIGHT = {"atol": 1e-5, "rtol": 1e-5}
EXACT = {"atol": 1e-12, "rtol": 1e-11}


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Every parameter, biases and norms included, away from its initial value: nothing can match by being zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in module.named_parameters():
            scales = "norm" in name.lower() or "ln_" in name
            centre = 1.0 if scales and name.endswith("weight") else 0.0
            scale = 0.2 if p.dim() == 1 else min(0.5, 1.5 * p.shape[-1] ** -0.5)
            p.copy_(centre + scale * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return module.eval()


def encoder_layer(notation: str, theirs: nn.TransformerEncoderLayer, activation: str) -> ss.Stack:
    pre_norm = "N" not in notation

    def make(name: str, layer: int) -> nn.Module:
        inner = partial(norm, "layer" if pre_norm else "none", D)
        if name in "NM":
            return Projection(norm("layer", D))
        spec = FieldSpec(D, inner, heads=HEADS, ffn=INNER, activation=activation)
        return SelfAttention(spec) if name == "A" else FeedForward(spec)

    stack = ss.Stack(ss.scheme(notation), 1, make)
    qkv = SimpleNamespace(weight=theirs.self_attn.in_proj_weight, bias=theirs.self_attn.in_proj_bias)
    places = ("A", "F") if pre_norm else ("N", "M")
    table = {"A.qkv": qkv, "A.out": "self_attn.out_proj", "F.up": "linear1", "F.down": "linear2"}
    table |= {f"{place}.norm": f"norm{number}" for number, place in enumerate(places, 1)}
    copy_all(stack, theirs, {f"layers.0.{name}": given for name, given in table.items()})
    return stack.eval()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(("notation", "norm_first"), [("A F", True), ("A N F M", False)])
def test_pytorch_encoder_layer_is_lie_trotter(notation: str, norm_first: bool, activation: str) -> None:
    theirs = nn.TransformerEncoderLayer(D, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=norm_first)
    randomise(theirs)
    ours = encoder_layer(notation, theirs, activation)
    x = torch.randn(B, T, D, requires_grad=True)
    real = torch.arange(T) < torch.tensor([[T], [T - 3], [T - 1]])
    torch.testing.assert_close(ours(x), theirs(x), **TIGHT)
    padded = ours(x, Context(mask=real[:, None, None]))
    expected = theirs(x, src_key_padding_mask=~real)
    torch.testing.assert_close(padded[real], expected[real], **TIGHT)
    g = torch.randn_like(padded[real])
    [mine] = torch.autograd.grad(padded[real], x, g)
    [other] = torch.autograd.grad(expected[real], x, g)
    torch.testing.assert_close(mine, other, **TIGHT)


def batch(side: str) -> tuple[Tensor, Tensor]:
    """Token ids and a mask with 0, 3 and 1 padding positions on one side."""
    tokens = torch.randint(1, VOCAB, (B, T), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(T) < torch.tensor([[T], [T - 3], [T - 1]])).long()
    return (tokens, mask) if side == "right" else (tokens.flip(1), mask.flip(1))


OURS = "body.stack.layers"


def gpt2() -> tuple[nn.Module, nn.Module]:
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=16, n_embd=D, n_layer=2, n_head=HEADS, n_inner=INNER, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    theirs = randomise(transformers.GPT2LMHeadModel(config))
    ours = ss.SplitstepForCausalLM(ss.CausalConfig(scheme="A F", activation="gelu-tanh", max_positions=16, **SHAPE))
    inside = {
        "A.norm": "ln_1", "A.qkv": "attn.c_attn", "A.out": "attn.c_proj",
        "F.norm": "ln_2", "F.up": "mlp.c_fc", "F.down": "mlp.c_proj",
    }  # fmt: skip
    table = {"tokens": "wte", "positions": "wpe"}
    table = {f"embedding.{name}": f"transformer.{given}" for name, given in table.items()}
    table["body.norm"] = "transformer.ln_f"
    copy_all(ours, theirs, table | layers(OURS, "transformer.h", inside))
    return ours, theirs


def gpt_neox() -> tuple[nn.Module, nn.Module]:
    config = transformers.GPTNeoXConfig(
        vocab_size=VOCAB, hidden_size=D, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=INNER,
        rotary_pct=1.0, use_parallel_residual=True, max_position_embeddings=16, hidden_act="gelu",
        tie_word_embeddings=False, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    theirs = randomise(transformers.GPTNeoXForCausalLM(config))
    shape = ss.CausalConfig(scheme="A+F", activation="gelu", positions="rotary", tie_word_embeddings=False, **SHAPE)
    ours = ss.SplitstepForCausalLM(shape)
    head = next(name for name, one in theirs.named_modules() if one is theirs.get_output_embeddings())  # pyright: ignore
    table = {"embedding.tokens": "gpt_neox.embed_in", "body.norm": "gpt_neox.final_layer_norm", "head": head}
    inside = {
        "A.norm": "input_layernorm", "A.qkv": "attention.query_key_value", "A.out": "attention.dense",
        "F.norm": "post_attention_layernorm", "F.up": "mlp.dense_h_to_4h", "F.down": "mlp.dense_4h_to_h",
    }  # fmt: skip
    copy_all(ours, theirs, table | layers(OURS, "gpt_neox.layers", inside))
    for p in (p for name, p in ours.named_parameters() if ".qkv." in name):  # [head, (q, k, v), size]
        p.detach().copy_(p.detach().unflatten(0, (HEADS, 3, D // HEADS)).transpose(0, 1).flatten(0, 2))
    return ours, theirs


def llama(kind: str = "Llama") -> tuple[nn.Module, nn.Module]:
    """Llama or, with norms of queries and keys besides, Qwen3."""
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=VOCAB, hidden_size=D, num_hidden_layers=2, num_attention_heads=HEADS, num_key_value_heads=2,
        intermediate_size=INNER, max_position_embeddings=16, rms_norm_eps=1e-5, tie_word_embeddings=False,
        head_dim=D // HEADS,
    )  # fmt: skip
    theirs: Any = randomise(getattr(transformers, f"{kind}ForCausalLM")(config))
    ours = ss.SplitstepForCausalLM(ss.CausalConfig(
        scheme="A F", kv_heads=2, activation="swiglu", norm="rms", norm_eps=1e-5, bias=False, positions="rotary",
        letters={"A": {"qk_norm": "rms" if kind == "Qwen3" else "none"}}, tie_word_embeddings=False, **SHAPE,
    ))  # fmt: skip
    table = {"embedding.tokens": "model.embed_tokens", "body.norm": "model.norm", "head": "lm_head"}
    inside = {
        "A.norm": "input_layernorm", "A.out": "self_attn.o_proj",
        "A.qkv": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
        "F.norm": "post_attention_layernorm", "F.up": "mlp.gate_proj mlp.up_proj", "F.down": "mlp.down_proj",
    }  # fmt: skip
    if kind == "Qwen3":
        inside |= {"A.q_norm": "self_attn.q_norm", "A.k_norm": "self_attn.k_norm"}
    copy_all(ours, theirs, table | layers(OURS, "model.layers", inside))
    return ours, theirs


def bert(kind: Any = transformers.BertForMaskedLM) -> tuple[nn.Module, nn.Module]:
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=D, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=INNER,
        max_position_embeddings=16, type_vocab_size=2, pad_token_id=None,
    )  # fmt: skip
    theirs: Any = randomise(kind(config))
    second = kind is transformers.BertForPreTraining
    ours = ss.SplitstepForMaskedLM(ss.MaskedConfig(
        scheme="A N F M", activation="gelu", norm_eps=1e-12, embedding_norm=True, token_types=2, max_positions=16,
        next_sentence_labels=2 if second else 0, **SHAPE,
    ))  # fmt: skip
    read = {"tokens": "word_embeddings", "positions": "position_embeddings", "types": "token_type_embeddings"}
    read["norm"] = "LayerNorm"
    table = {f"encoder.embedding.{name}": f"bert.embeddings.{given}" for name, given in read.items()}
    written = {"transform": "transform.dense", "norm": "transform.LayerNorm", "head": "decoder"}
    table |= {name: f"cls.predictions.{given}" for name, given in written.items()}
    if second:
        table |= {"next_sentence.pooler": "bert.pooler.dense", "next_sentence.head": "cls.seq_relationship"}
    inside = {
        "A.qkv": "attention.self.query attention.self.key attention.self.value", "A.out": "attention.output.dense",
        "N.norm": "attention.output.LayerNorm", "F.up": "intermediate.dense", "F.down": "output.dense",
        "M.norm": "output.LayerNorm",
    }  # fmt: skip
    copy_all(ours, theirs, table | layers(f"encoder.{OURS}", "bert.encoder.layer", inside))
    return ours, theirs


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "build", [gpt2, gpt_neox, llama, partial(llama, "Qwen3")], ids=["gpt2", "neox", "llama", "qwen3"]
)
def test_hugging_face_decoders_are_schemes(build: Callable[[], tuple[nn.Module, nn.Module]], side: str) -> None:
    ours, theirs = (model.eval() for model in build())
    tokens, mask = batch(side)
    torch.testing.assert_close(ours(tokens).logits, theirs(tokens).logits, **TIGHT)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)  # as `generate` numbers them
    expected = theirs(tokens, attention_mask=mask, position_ids=positions).logits
    assert expected.std() > 0.1
    torch.testing.assert_close(ours(tokens, mask).logits[mask > 0], expected[mask > 0], **TIGHT)


def test_bert_is_post_norm_lie_trotter() -> None:
    """Its logits, padded or not; and its loss, in packed rows at masked positions, against each text alone."""
    ours, theirs = (model.eval() for model in bert())
    tokens, mask = batch("right")
    types = (torch.arange(T) > 4).long().expand(B, T)
    torch.testing.assert_close(ours(tokens).logits, theirs(tokens).logits, **TIGHT)
    expected = theirs(tokens, attention_mask=mask, token_type_ids=types).logits
    assert expected.std() > 0.1
    torch.testing.assert_close(ours(tokens, mask, types).logits[mask > 0], expected[mask > 0], **TIGHT)
    tokens = torch.randint(1, VOCAB, (2, 12), generator=torch.Generator().manual_seed(3))
    at, few = torch.tensor([[1, 4, 9], [0, 6, 11]]), tokens.flip(0)[:, :3]
    labels = torch.full((2, 12), -100).scatter(1, at, few)
    types = torch.tensor([[0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1]]).expand(2, 12)
    expected = theirs(tokens, token_type_ids=types, labels=labels).loss
    plain = ours(tokens, token_type_ids=types, labels=labels).loss
    torch.testing.assert_close(plain, expected, **TIGHT)
    halves = [slice(0, 5), slice(5, 12)]
    alone = [theirs(tokens[:, one], token_type_ids=types[:, one], labels=labels[:, one].contiguous()) for one in halves]
    counted = [int((labels[:, one] != -100).sum()) for one in halves]
    mean = sum(out.loss * n for out, n in zip(alone, counted, strict=True)) / sum(counted)
    seq_idx = torch.tensor([[0] * 5 + [1] * 7]).expand(2, 12)
    packed = ours(tokens, token_type_ids=types, labels=few, masked_positions=at, seq_idx=seq_idx).loss
    torch.testing.assert_close(packed, mean, **TIGHT)


def test_both_losses_of_pre_training_are_bert_s() -> None:
    """Pairs of texts alone, and packed into rows."""
    ours, theirs = (model.eval() for model in bert(transformers.BertForPreTraining))
    tokens = torch.randint(1, VOCAB, (4, 6), generator=torch.Generator().manual_seed(3))
    types, following = torch.tensor([[0, 0, 0, 1, 1, 1]]).expand(4, 6), torch.tensor([0, 1, 1, 0])
    labels = torch.where(torch.arange(6) % 3 == 1, tokens.flip(0), -100)
    given = {"token_type_ids": types, "labels": labels}
    expected = theirs(tokens, **given, next_sentence_label=following)
    alone = ours(tokens, **given, next_sentence_targets=following)
    assert expected.seq_relationship_logits.std() > 0.1
    torch.testing.assert_close(alone.logits, expected.prediction_logits, **TIGHT)
    torch.testing.assert_close(alone.next_sentence_logits, expected.seq_relationship_logits, **TIGHT)
    torch.testing.assert_close(alone.loss, expected.loss, **TIGHT)
    second = nn.functional.cross_entropy(expected.seq_relationship_logits, following)
    only = ours(tokens, token_type_ids=types, next_sentence_targets=following).loss
    torch.testing.assert_close(only, second, **TIGHT)
    rows = {name: x.reshape(2, 12) for name, x in {**given, "input_ids": tokens}.items() if x.numel() == 24}
    pairs = {
        "next_sentence_positions": torch.tensor([[0, 6, 0], [0, 6, 0]]),
        "next_sentence_targets": torch.nn.functional.pad(following.reshape(2, 2), (0, 1), value=-100),
        "seq_idx": torch.tensor([[0] * 6 + [1] * 6]).expand(2, 12),
    }
    packed = ours(**rows, **pairs)
    found = packed.next_sentence_logits[:, :2].reshape(4, 2)
    torch.testing.assert_close(found, expected.seq_relationship_logits, **TIGHT)
    torch.testing.assert_close(packed.loss, expected.loss, **TIGHT)


def marian() -> tuple[Any, Any]:
    config = transformers.MarianConfig(
        vocab_size=VOCAB, d_model=D, encoder_layers=2, decoder_layers=2, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=INNER, decoder_ffn_dim=INNER, max_position_embeddings=16,
        activation_function="relu", scale_embedding=True, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    theirs: Any = randomise(transformers.MarianMTModel(config))
    shape = ss.TranslationConfig(
        scheme="lie-postnorm", decoder_layers=2, embedding_scale=D**0.5, max_positions=16, **SHAPE
    )
    ours = ss.SplitstepForTranslation(shape)
    for side in (theirs.model.encoder, theirs.model.decoder):  # where their sinusoids differ is not a matter of schemes
        side.embed_positions.weight.detach().copy_(sinusoids(torch.arange(16), D))
    inside = {
        "A.qkv": "self_attn.q_proj self_attn.k_proj self_attn.v_proj", "A.out": "self_attn.out_proj",
        "N.norm": "self_attn_layer_norm", "F.up": "fc1", "F.down": "fc2", "M.norm": "final_layer_norm",
    }  # fmt: skip
    cross = {
        "C.q": "encoder_attn.q_proj", "C.kv": "encoder_attn.k_proj encoder_attn.v_proj",
        "C.out": "encoder_attn.out_proj", "P.norm": "encoder_attn_layer_norm",
    }  # fmt: skip
    table = layers(f"encoder.{OURS}", "model.encoder.layers", inside)
    table |= layers("decoder.stack.layers", "model.decoder.layers", inside | cross)
    copy_all(ours, theirs, {"encoder.embedding.tokens": "model.shared"} | table)
    return ours.eval(), theirs.eval()


def test_marian_is_post_norm_lie_trotter() -> None:
    """Its logits, and what it generates greedily and by beams."""
    ours, theirs = marian()
    source, mask = batch("right")
    source = source * mask
    target = torch.randint(3, VOCAB, (B, 7), generator=torch.Generator().manual_seed(2))
    mine, expected = (m(source, attention_mask=mask, decoder_input_ids=target).logits for m in (ours, theirs))
    assert expected.std() > 0.1
    torch.testing.assert_close(mine, expected, **TIGHT)
    for beams, penalty in ((1, 1.0), (5, 0.6), (5, 1.0)):
        how: dict[str, Any] = {"num_beams": beams, "length_penalty": penalty, "max_new_tokens": 12, "do_sample": False}
        mine, expected = (m.generate(source, attention_mask=mask, **how) for m in (ours, theirs))
        assert torch.equal(mine, expected)


Drop = Callable[[Tensor, int], Tensor]


def attend(field: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, drop: Drop) -> Tensor:
    q, k, v = (y.view(*y.shape[:2], HEADS, D // HEADS).transpose(1, 2) for y in (q, k, v))
    scores = (q @ k.transpose(2, 3) / math.sqrt(D // HEADS)).masked_fill(~mask, -math.inf)
    y = drop(scores.softmax(-1), 4 * field.salt) @ v
    return drop(field.out(y.transpose(1, 2).reshape(*q.shape[:1], -1, D)), 4 * field.salt + 1)


def published_layer(w: Any, x: Tensor, memory: Tensor | None, mask: Tensor, drop: Drop = lambda y, place: y) -> Tensor:
    """x += 1/2 FFN1(LN(x)); x += MHA(LN(x)); decoder: x += MHA(LN(x), memory); x += 1/2 FFN2(LN(x))."""
    x = x + 0.5 * published_ffn(w["F0"], x, drop)
    x = x + attend(w["A"], *w["A"].qkv(w["A"].norm(x)).chunk(3, -1), mask, drop)
    if memory is not None:
        c = w["C"]
        x = x + attend(c, c.q(c.norm(x)), *c.kv(memory).chunk(2, -1), torch.tensor(True), drop)
    return x + 0.5 * published_ffn(w["F1"], x, drop)


def published_ffn(f: Any, x: Tensor, drop: Drop) -> Tensor:
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    z = (x - mean) / (var + 1e-5).sqrt() * f.norm.weight + f.norm.bias
    return drop(f.down(drop(f.up(z).clamp(min=0), 4 * f.salt)), 4 * f.salt + 1)


def macaron_make(p: float = 0.0) -> Callable[[str, int], nn.Module]:
    def make(name: str, layer: int) -> nn.Module:
        spec = FieldSpec(
            D, partial(norm, "layer", D), salt=10 * layer + ("A", "C", "F0", "F1").index(name), heads=HEADS, ffn=INNER,
            activation="relu", dropout=p, attention_dropout=p, activation_dropout=p,
        )  # fmt: skip
        return {"A": SelfAttention, "C": CrossAttention, "F": FeedForward}[name[0]](spec)

    return make


@pytest.mark.parametrize("half", ["encoder", "decoder"])
def test_macaron_is_its_published_equations(half: str) -> None:
    scheme = ss.scheme("macaron") if half == "encoder" else ss.decoder(ss.scheme("macaron"))
    assert str(scheme) == ("F0/2 A F1/2" if half == "encoder" else "F0/2 A C F1/2")
    stack = randomise(ss.Stack(scheme, 2, macaron_make()).double())
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    memory = None if half == "encoder" else torch.randn(B, 5, D, dtype=torch.float64, requires_grad=True)
    y = stack(x, Context(causal=half == "decoder", memory=memory))
    expected, sees = x, torch.ones(T, T, dtype=torch.bool)
    for layer in stack.layers:
        expected = published_layer(layer, expected, memory, sees.tril() if half == "decoder" else sees)
    torch.testing.assert_close(y, expected, **EXACT)
    wanted = [x, *([] if memory is None else [memory]), *stack.parameters()]
    g = torch.randn_like(y)
    for mine, other in zip(*(torch.autograd.grad(z, wanted, g) for z in (y, expected)), strict=True):
        torch.testing.assert_close(mine, other, **EXACT)


@pytest.mark.parametrize("scheme", [*ss.SCHEMES, "F0/2 N0 A N1 F1/2 N2"])
def test_a_translator_runs_the_scheme_and_that_of_its_decoder(scheme: str) -> None:
    """Macaron has four norms in each layer of a decoder, and one at the end unless the norms are projections."""
    plain, shape = ss.scheme(scheme), {"layers": 2, "decoder_layers": 3, "width": 8, "heads": 2, "ffn": 8}
    model = ss.SplitstepForTranslation(ss.TranslationConfig(scheme=scheme, vocab_size=11, **shape))
    assert (model.encoder.body.stack.scheme, model.decoder.stack.scheme) == (plain, ss.decoder(plain))
    if len({"F0", "F1"} & {*plain.fields}) == 2 and "V" not in plain.fields:
        norms = [name for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)]
        assert len(norms) == 3 * 2 + 4 * 3 + 2 * (not plain.projections)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_has_the_right_rate_and_scale(p: float) -> None:
    n = 200_000
    y = dropout(torch.ones(n, dtype=torch.float64), p, torch.tensor(7), 3)
    assert set(y.unique().tolist()) == {0.0, 1 / (1 - p)}
    kept = (y > 0).double().mean().item()
    assert abs(kept - (1 - p)) < 5 * math.sqrt(p * (1 - p) / n)
    assert dropout(y, p, None, 3) is dropout(y, 0.0, torch.tensor(7), 3) is y


def test_dropout_masks_of_different_seeds_and_salts_are_unrelated() -> None:
    """Nor is a mask related to itself, shifted."""
    p, n = 0.3, 100_000
    keys = [(seed, salt) for seed in (0, 1, 2, 2**31 - 2) for salt in (0, 1, 3, 4, 5, 397)]
    masks = torch.stack([keep(torch.tensor(seed), salt, (n,), p) for seed, salt in keys]).double()
    bound = 5.5 / math.sqrt(n)
    assert (torch.corrcoef(masks) - torch.eye(len(keys))).abs().max() < bound
    for lag in (1, 2, 32, 64, 512):
        assert torch.corrcoef(torch.stack((masks[0, :-lag], masks[0, lag:])))[0, 1].abs() < bound


def dropping_model(scheme: str, **more: Any) -> ss.SplitstepForCausalLM:
    rates = {"init_std": 0.3, "dropout": 0.25, "attention_dropout": 0.25, "activation_dropout": 0.25}
    torch.manual_seed(3)
    return ss.SplitstepForCausalLM(ss.CausalConfig(scheme=scheme, **(SHAPE | rates | more))).train()


@pytest.mark.parametrize("scheme", ["strang-midpoint", "rk4", "symmetrised-heun", "reversible", "macaron"])
def test_a_field_has_one_dropout_mask_per_pass_shared_by_its_stages(scheme: str) -> None:
    model = dropping_model(scheme)
    stack = model.body.stack
    dropped: dict[tuple[int, str], list[Tensor]] = {}
    for i, layer in enumerate(stack.layers):
        for name, field in layer.items():
            log = dropped.setdefault((i, name), [])
            field.register_forward_hook(lambda module, inputs, output, log=log: log.append(output.detach() == 0))
    tokens, _ = batch("right")
    model(tokens, dropout_seed=torch.tensor(5))
    masks = [log[0] for log in dropped.values()]
    for (_, name), log in dropped.items():
        assert len(log) == stack.scheme.count(name)
        assert all(torch.equal(mask, log[0]) for mask in log)
        assert abs(log[0].double().mean().item() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / log[0].numel())
    assert not any(torch.equal(u, v) for i, u in enumerate(masks) for v in masks[:i])  # layers and fields differ
    model(tokens, dropout_seed=torch.tensor(6))
    assert not any(torch.equal(log[0], log[-1]) for log in dropped.values())  # seeds differ


@pytest.mark.parametrize("scheme", ["lie", "lie-postnorm", "symmetrised-heun", "rk4", "reversible", "macaron"])
def test_a_seed_fixes_every_dropout_mask(scheme: str) -> None:
    model = dropping_model(scheme, layers=1)
    tokens, mask = batch("right")
    one, again, other = (model(tokens, mask, dropout_seed=torch.tensor(s)).logits for s in (5, 5, 6))
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)
    torch.manual_seed(0)
    first = model(tokens).logits
    second = model(tokens).logits
    torch.manual_seed(0)
    assert torch.equal(model(tokens).logits, first)  # without a seed PyTorch's generator gives one
    assert not torch.equal(first, second)


REST = [pytest.param(name, marks=pytest.mark.nightly) for name in ("lie", "strang-midpoint", "reversible")]


@pytest.mark.parametrize("scheme", ["macaron", *REST])
def test_a_compiled_model_is_the_eager_one_dropout_included(scheme: str) -> None:
    """Layers have masks of their own; a reversible one takes the compiler long, and is alone."""
    model = dropping_model(scheme, layers=1 if scheme == "reversible" else 2)
    tokens, mask = batch("right")
    given = {"input_ids": tokens, "attention_mask": mask, "labels": tokens, "dropout_seed": torch.tensor(11)}
    eager = model(**given)
    eager.loss.backward()
    expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)(**given)
    torch.testing.assert_close(compiled.logits, eager.logits, **TIGHT)
    compiled.loss.backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, expected.get(name), atol=1e-5, rtol=1e-4, msg=name)


def test_training_dropout_equals_a_manual_evaluation_with_the_same_masks() -> None:
    """A whole Macaron layer in training mode, all three dropouts on, written out with explicit masks."""
    stack = randomise(ss.Stack(ss.scheme("macaron"), 1, macaron_make(0.25)).double()).train()
    x, seed = torch.randn(B, T, D, dtype=torch.float64), torch.tensor(9)

    def drop(y: Tensor, place: int) -> Tensor:
        return y * keep(seed, place, y.shape, 0.25) / 0.75

    expected = published_layer(stack.layers[0], x, None, torch.tensor(True), drop)
    torch.testing.assert_close(stack(x, Context(seed=seed)), expected, **EXACT)
    torch.testing.assert_close(stack(x, Context()), stack.eval()(x, Context()), **EXACT)
