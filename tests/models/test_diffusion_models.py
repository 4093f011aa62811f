"""Models with diffusion: caches, padding, packed rows, twins in training and evaluation, bad input in one line."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from splitstep.models import KINDS

SMALL: dict[str, Any] = dict(layers=2, width=16, heads=4, ffn=24, max_positions=16, init_std=0.3, diffusion=0.4)
TEXT: dict[str, Any] = {**SMALL, "vocab_size": 20}
SCHEMES = ["A F D@exact", "D/2 A F D/2", "D/2@exact F/2 A F/2 D/2 @heun"]
TOKENS = torch.randint(3, 20, (2, 7), generator=torch.Generator().manual_seed(0))


def model_of(kind: str, **entries: Any) -> Any:
    torch.manual_seed(0)
    shape = {"image": {**SMALL, "image_size": 16}, "vectors": SMALL}.get(kind, TEXT)
    return KINDS[kind].model(KINDS[kind].config(**{**shape, **entries})).eval()


def close(found: Any, expected: Any, atol: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("kind", ["causal", "sequence"])
def test_checkpointed_steps_give_the_same_gradients(kind: str) -> None:
    mask = torch.ones_like(TOKENS)
    mask[1, 5:] = 0
    labels = TOKENS if kind == "causal" else torch.tensor([0, 1])
    grads = []
    for checkpointing in (False, True):
        model = model_of(kind, scheme="D/2@exact A F D/2").train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(TOKENS, attention_mask=mask, labels=labels).loss.backward()
        grads.append([p.grad for p in model.parameters() if p.grad is not None])
    assert len(grads[0]) == len(grads[1]) > 0
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["sequence", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("causal", "image"))]
)
def test_a_compiled_model_is_one_graph_and_agrees(kind: str) -> None:
    model = model_of(kind, scheme="D/2@exact A F S D/2")
    given: dict[str, Any] = {"pixel_values": torch.randn(2, 1, 16, 16)}
    if kind != "image":
        mask = torch.ones_like(TOKENS)
        mask[1, 5:] = 0
        given = {"input_ids": TOKENS, "attention_mask": mask}
    if kind == "causal":
        given["use_cache"] = False
    torch._dynamo.reset()
    close(torch.compile(model, fullgraph=True, backend="aot_eager")(**given).logits, model(**given).logits)


def test_a_saved_model_comes_back_with_its_alpha(tmp_path: Any) -> None:
    model = model_of("sequence", scheme="A F D@exact", ends="fixed", diffusion=0.7)
    assert torch.nn.functional.softplus(model.get_parameter("encoder.body.stack.layers.0.D.a")).item() == pytest.approx(
        0.7
    )
    model.save_pretrained(tmp_path)
    again = KINDS["sequence"].model.from_pretrained(tmp_path)
    assert again.config.ends == "fixed"
    assert torch.equal(again(TOKENS).logits, model(TOKENS).logits)


def test_sandwich_norms_normalise_what_a_network_returns() -> None:
    model = model_of("causal", scheme="A F", norm_at="both")
    seen: list[Any] = []
    model(TOKENS, use_cache=False, observe=lambda event: seen.extend(event.increments.values()))
    for added in seen:
        close(added.mean(-1), torch.zeros(2, 7), 1e-5)
        close(added.std(-1, correction=0), torch.ones(2, 7), 1e-2)
    bare = model_of("causal", scheme="A F", norm_at="both", norm="none")
    assert not [m for m in bare.modules() if isinstance(m, torch.nn.LayerNorm)]


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("sequence", dict(diffusion=0), "diffusion=0 must be a positive number"),
    ("sequence", dict(diffusion=-0.5), "diffusion=-0.5 must be a positive number"),
    ("sequence", dict(step=0), "step=0 must be a positive number"),
    ("sequence", dict(stabiliser=0), "stabiliser=0 must be a positive number"),
    ("sequence", dict(scheme="A F D", diffusion=0.6), "0.6 is above 0.5, the limit.*write D@exact, or use 2 times"),
    ("sequence", dict(scheme="A F D", diffusion=0.3, step=4, substeps=2), "0.3 . 2 = 0.6 is above 0.5"),
    ("image", dict(scheme="A F D", diffusion=0.3), "0.3 is above 0.25, the limit"),
    ("causal", dict(scheme="A F D", diffusion=1.1), "1.1 is above 1, the limit"),
    ("causal", dict(ends="fixed"), "a causal model may not look at later tokens: leave ends out"),
    ("causal", dict(ends="reflecting"), "a causal model may not look at later tokens: leave ends out"),
    ("sequence", dict(ends="upwind"), "ends='upwind' is unknown: use one of 'reflecting', 'fixed'"),
    ("sequence", dict(scheme="A S F", norm="none"), "use norm=layer or norm=rms"),
    ("sequence", dict(scheme="A N F M", norm_at="both"), "it is post-norm"),
    ("sequence", dict(norm_at="output"), "norm_at"),
    ("causal", dict(scheme="A F D @exact"), "A has none; write @exact after such a part alone"),
    ("causal", dict(scheme="A+D F"), "sums several fields that look at earlier tokens"),
]


@pytest.mark.parametrize(("kind", "entries", "says"), BAD)
def test_bad_input_is_one_clear_line(kind: str, entries: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        model_of(kind, **entries)
    assert "\n" not in str(error.value)


def test_the_whole_equation_may_be_one_part_of_a_two_sided_model() -> None:
    model_of("sequence", scheme="A+D+F+S @rk4")(TOKENS)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", ["causal", "masked"])
@pytest.mark.parametrize("floats", [False, True])
def test_a_mask_of_four_dimensions_means_what_it_shows(scheme: str, kind: str, floats: bool) -> None:
    model = model_of(kind, scheme=scheme, positions="rotary")
    mask = torch.ones_like(TOKENS)
    mask[1, 5:] = 0
    full = mask.bool()[:, None, None, :].expand(-1, -1, 7, -1)
    full = full.tril() if kind == "causal" else full
    given = torch.zeros(full.shape).masked_fill(~full, -torch.inf) if floats else full
    more = {"use_cache": False} if kind == "causal" else {}
    found, expected = (model(TOKENS, attention_mask=m, **more).logits[mask.bool()] for m in (given, mask))
    close(found, expected)
    texts = torch.block_diag(torch.ones(3, 3), torch.ones(4, 4)).bool()[None, None].expand(2, -1, -1, -1)
    texts = texts.tril() if kind == "causal" else texts
    pieces = [model(TOKENS[:, cut], **more).logits for cut in (slice(0, 3), slice(3, 7))]
    close(model(TOKENS, attention_mask=texts, **more).logits, torch.cat(pieces, 1))
