"""The gated convolution against the Conformers of transformers, and against each document alone, written out."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from field_cases import DOCUMENTS, close, fresh, normal
from their_weights import copied
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache, StaticCache, Wav2Vec2BertConfig, Wav2Vec2ConformerConfig
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertEncoder
from transformers.models.wav2vec2_conformer.modeling_wav2vec2_conformer import Wav2Vec2ConformerEncoder

import splitstep as ss
from splitstep.fields import Context, FieldSpec, norm
from splitstep.fields.convolution import Convolution
from splitstep.kernels.dropout import keep
from splitstep.letters import ConvolutionOptions

D, T = 6, 7
ENDS = ["reflecting", "upwind"]


def spec(width: int = D, kernel: int = 5, middle: Any = "rms", **more: Any) -> Any:
    options = ConvolutionOptions(kernel=kernel, norm=middle)
    return FieldSpec(width, partial(norm, "layer", width), options=options, **more)


def field_of(**more: Any) -> Any:
    return fresh(Convolution(spec(**more)))


def alone(field: Any, x: Tensor, places: list[int]) -> Tensor:
    """V of the tokens of one document [T, D], which stand at these places of their row, one by one and tap by tap."""
    gate = field.up(field.norm(x))
    u = dict(zip(places, gate[:, :D] * torch.sigmoid(gate[:, D:]), strict=True))
    rows = []
    for i in places:
        met = [(k, u[i - field.before + k]) for k in range(field.kernel) if i - field.before + k in u]
        rows.append(sum(field.depthwise.weight[:, 0, k] * row for k, row in met))
    y = torch.stack(rows) + (0 if field.depthwise.bias is None else field.depthwise.bias)
    return field.output_norm(field.down(functional.silu(field.inner_norm(y))))


def looks(documents: Tensor) -> Tensor:
    """What a mask of four dimensions says in a causal model: whether a key is of the query's document, [B, T, S]."""
    return ((documents[:, :, None] == documents[:, None]) & (documents > 0)[:, None]).tril()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("middle", ["none", "layer", "rms"])
@pytest.mark.parametrize(("ends", "kernel"), [("reflecting", 1), ("reflecting", 5), ("upwind", 4), ("upwind", 9)])
def test_a_convolution_is_its_formula(ends: str, kernel: int, middle: str, bias: bool) -> None:
    more: Any = {"bias": bias, "output_norm": partial(norm, middle, D)}
    field, x = field_of(causal=ends == "upwind", kernel=kernel, middle=middle, **more), normal(2, T, D)
    expected = torch.stack([alone(field, row, list(range(T))) for row in x])
    close(field(0.0, x), expected)


@pytest.mark.parametrize("ends", ENDS)
def test_documents_and_padding_do_not_mix(ends: str) -> None:
    field, x = field_of(causal=ends == "upwind"), normal(4, T, D)
    asked = [DOCUMENTS] + [looks(DOCUMENTS)] * (ends == "upwind")
    for found in (field(0.0, x, Context(documents=documents)) for documents in asked):
        for b, row in enumerate(DOCUMENTS):
            for document in {int(d) for d in row if d}:
                places = [i for i, d in enumerate(row) if d == document]
                close(found[b, places], alone(field, x[b, places], places))
                if places[-1] - places[0] < len(places):  # no padding in the middle
                    close(found[b, places], field(0.0, x[b : b + 1, places])[0])


@pytest.mark.parametrize("ends", ENDS)
def test_one_document_has_the_values_and_gradients_of_the_fast_path(ends: str) -> None:
    field, x = field_of(causal=ends == "upwind"), normal(2, T, D).requires_grad_()
    found = [field(0.0, x, Context(documents=d)) for d in (None, torch.ones(2, T).long(), torch.ones(1, T).long())]
    gradients = [torch.autograd.grad(y.square().sum(), [x, *field.parameters()]) for y in found]
    for i in (1, 2):
        close((found[i], *gradients[i]), (found[0], *gradients[0]))


@pytest.mark.parametrize("documents", [None, torch.ones(1, T).long()])
def test_a_causal_convolution_has_no_gradient_from_later_tokens(documents: Tensor | None) -> None:
    field, context = field_of(causal=True, kernel=4), Context(documents=documents)
    jacobian: Any = torch.autograd.functional.jacobian(lambda x: field(0.0, x, context).sum((0, 2)), normal(1, T, D))
    assert torch.equal(jacobian[:, 0].abs().sum(-1) > 0, torch.ones(T, T).bool().tril().triu(-3))


def kept(kind: str) -> Any:
    config = SimpleNamespace(num_hidden_layers=1, get_text_config=lambda decoder: config)
    return DynamicCache() if kind == "dynamic" else StaticCache(config=config, max_cache_len=T + 2)  # pyright: ignore


@pytest.mark.parametrize("kernel", [1, 4])
@pytest.mark.parametrize("pieces", [[1] * T, [3, 1, 3], [T], [1, 5, 1]])
@pytest.mark.parametrize("told", ["nothing", "keys", "pairs"])
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_cached_is_uncached(kind: str, told: str, pieces: list[int], kernel: int) -> None:
    field, x, cache = field_of(causal=True, kernel=kernel), normal(4, T, D), kept(kind)
    documents: Any = {"nothing": None, "keys": DOCUMENTS, "pairs": looks(DOCUMENTS)}[told]
    expected, start, found = field(0.0, x, Context(documents=documents)), 0, []
    for end in torch.tensor(pieces).cumsum(0).tolist():
        room = T + 2 if kind == "static" else end
        known = None if documents is None else functional.pad(documents, (0, 2))[..., :room]
        known = known[:, start:end] if told == "pairs" else known  # pyright: ignore
        found.append(field(0.0, x[:, start:end], Context(documents=known, cache=cache, slot=0)))
        start = end
    close(torch.cat(found, 1), expected)


@pytest.mark.parametrize("documents", [None, functional.pad(torch.ones(1, T).long(), (0, 2))])
@torch.no_grad()
def test_a_step_of_generation_compiles_as_one_graph(documents: Tensor | None) -> None:
    field, x = field_of(causal=True), normal(1, T, D)
    context = Context(documents=documents, cache=kept("static"), slot=0)
    field(0.0, x[:, :4], context)
    step: Any = torch.compile(field, backend="eager", fullgraph=True)
    found = [step(0.0, x[:, i : i + 1], context) for i in range(4, T)]
    close(torch.cat(found, 1), field(0.0, x)[:, 4:])


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_on_images_it_runs_over_the_grid(kernel: int) -> None:
    field, x = field_of(kernel=kernel, grid=(2, 5)), normal(3, 10, D)
    cells = functional.glu(field.up(field.norm(x)), -1).mT.unflatten(-1, (2, 5))
    dense = torch.einsum("cij,cd->cdij", field.depthwise.weight[:, 0], torch.eye(D).double())
    y = functional.conv2d(cells, dense, field.depthwise.bias, padding=kernel // 2).flatten(2).mT
    close(field(0.0, x), field.down(functional.silu(field.inner_norm(y))))


def test_dropout_is_a_mask_on_what_is_returned() -> None:
    field, x, seed = field_of(dropout=0.3, salt=5), normal(2, T, D), torch.tensor(17)
    mask = keep(seed, 4 * 5 + 1, (2, T, D), 0.3).double() / 0.7
    close(field(0.0, x, Context(seed=seed)), field(0.0, x) * mask)


PARTS = {
    "F0": {"norm": "ffn1_layer_norm", "up": "ffn1.intermediate_dense", "down": "ffn1.output_dense"},
    "A": {"norm": "self_attn_layer_norm", "qkv": "linear_q linear_k linear_v", "out": "linear_out"},
    "V": {"norm": "layer_norm", "up": "pointwise_conv1", "depthwise": "depthwise_conv", "down": "pointwise_conv2"},
    "F1": {"norm": "ffn2_layer_norm", "up": "ffn2.intermediate_dense", "down": "ffn2.output_dense"},
    "N": {"norm": "final_layer_norm"},
}
SIZES: Any = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24}
ENCODERS: Any = {
    "conformer": (Wav2Vec2ConformerConfig, Wav2Vec2ConformerEncoder, {"norm": "none"}),
    "bert": (Wav2Vec2BertConfig, Wav2Vec2BertEncoder, {"norm": "layer", "window": "causal"}),
}
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1, 0]])


def copied_layer(ours: Any, theirs: Any) -> None:
    """The weights of a Conformer layer of transformers; batch norm in evaluation is an affine map, so it is folded."""
    found = dict(theirs.named_modules())
    for name, parts in PARTS.items():
        inside = {"A": "self_attn.", "V": "conv_module."}.get(name, "")
        for mine, names in parts.items():
            copied(ours[name].get_submodule(mine), [found.get(inside + one) or found[one] for one in names.split()])
    conv, module = ours["V"], theirs.conv_module
    if hasattr(module, "depthwise_layer_norm"):
        copied(conv.inner_norm, [module.depthwise_layer_norm])
    else:
        batch = module.batch_norm
        scale = batch.weight / (batch.running_var + batch.eps).sqrt()
        conv.depthwise.weight.mul_(scale[:, None, None])
        conv.depthwise.bias.copy_(batch.bias - batch.running_mean * scale)


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("kind", "mask"), [("conformer", None), ("bert", None), ("bert", MASK)])
@torch.no_grad()
def test_a_conformer_is_the_row_of_its_name(kind: str, mask: Any, dtype: torch.dtype, within: float) -> None:
    """Their encoders of two layers, without their positions, which are relative or rotate states; and the last norm,
    which they add after the layers. Wav2Vec2Conformer's convolution looks at padding, so it has none here."""
    Config, Encoder, options = ENCODERS[kind]
    more = {"hidden_act": "swish", "conv_depthwise_kernel_size": 5, "position_embeddings_type": None}
    theirs = fresh(Encoder(Config(**SIZES, **more, attn_implementation="eager"))).to(dtype)
    shape: Any = {"layers": 2, "width": 16, "heads": 4, "ffn": 24, "activation": "silu", "positions": "none"}
    config = ss.VectorsConfig(scheme="conformer", inputs=16, letters={"V": {"kernel": 5, **options}}, **shape)
    ours: Any = ss.SplitstepVectorsModel(config).to(dtype).eval()
    ours.embedding.weight.copy_(torch.eye(16))
    for mine, layer in zip(ours.body.stack.layers, theirs.layers, strict=True):
        copied_layer(mine, layer)
    x, real = normal(4, T, 16).to(dtype), torch.ones(4, T).bool() if mask is None else mask > 0
    expected = theirs(x.clone(), attention_mask=mask).last_hidden_state
    states = ours.bare(x, mask).last_hidden_state
    last = theirs.layer_norm(states) if hasattr(theirs, "layer_norm") else states
    close(last[real], expected[real], within)
