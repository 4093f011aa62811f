"""What every model promises, for every row of the table, for diffusion and for letters of other packages: later
tokens change nothing, padding changes nothing, packed texts do not mix, a cache changes nothing, costs are counted."""

from itertools import product
from typing import Any

import pytest
import torch
from tiny import LENGTH, VOCAB, inputs, labels, left_mask, right_mask, tiny, tokens
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

import splitstep as ss
from splitstep.fields import exact_attention
from splitstep.letters import LETTERS, Letter
from splitstep.models import KINDS, cost, twin
from splitstep.models.cost import sketch
from splitstep.report.diagram import draw

ROWS = list(ss.SCHEMES)
DIFFUSING = ["A F D@exact", "D/2 A F D/2", "D/2@exact F/2 A F/2 D/2 @heun"]
KEEPING = ["A F G", "A/2 G F A/2 @midpoint"]  # G keeps the past of a text, and reads no mask; H keeps nothing
STRANGE = ["A F G", "F0/2 A G+H F1/2 @heun", "A N F M G P H"]
TEXT = ["causal", "masked", "sequence", "translation"]
ALPHA: dict[str, Any] = {"diffusion": 0.4}
LENGTHS = ((5, 1, 6), (12,), (2, 3, 7))  # of the texts in each row of 12 tokens
SEQ_IDX = torch.tensor([[n for n, size in enumerate(row) for _ in range(size)] for row in LENGTHS])
RESTARTS = torch.tensor([[i for size in row for i in range(size)] for row in LENGTHS])

pytestmark = pytest.mark.usefixtures("stranger")


def exact(kind: str, scheme: str, **more: Any) -> Any:
    """A model in double precision: attention that prefers some keys by far makes much of rounding."""
    return tiny(kind, scheme, **(ALPHA | more)).double()


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def moved(ids: Tensor, at: Any) -> Tensor:
    """Other tokens at these places."""
    other = ids.clone()
    other[at] = (other[at] + 5) % (VOCAB - 1) + 1
    return other


@pytest.mark.parametrize("scheme", ROWS + DIFFUSING + KEEPING)
@pytest.mark.parametrize("kind", ["causal", "translation"])
def test_no_output_moves_when_a_later_token_moves(kind: str, scheme: str) -> None:
    model = exact(kind, scheme, positions="rotary" if kind == "causal" else "learned")
    name = "decoder_input_ids" if kind == "translation" else "input_ids"
    given = {**inputs(kind), "attention_mask": torch.ones(3, LENGTH).long()}
    for masked in (given, {key: x for key, x in given.items() if key != "attention_mask"}):
        plain = model(**masked).logits
        for j in (1, 4, LENGTH - 1):
            changed = model(**{**masked, name: moved(given[name], (slice(None), j))}).logits
            assert torch.equal(changed[:, :j], plain[:, :j])
            assert not torch.allclose(changed[:, j:], plain[:, j:])
    if kind == "translation":  # whose source is seen whole
        changed = model(**(given | {"input_ids": moved(given["input_ids"], (slice(None), -1))})).logits
        assert not torch.allclose(changed[:, :1], plain[:, :1])


@pytest.mark.parametrize("scheme", ROWS + DIFFUSING)
@pytest.mark.parametrize("kind", TEXT)
def test_padding_changes_nothing(kind: str, scheme: str) -> None:
    """What stands there has no influence, and each row is read as it is alone."""
    mask = left_mask() if kind in ("causal", "sequence") else right_mask()
    given, per_token = {**inputs(kind), "attention_mask": mask}, kind in ("causal", "masked")
    for more in ({}, {"ends": "fixed"}) if scheme in DIFFUSING and kind != "causal" else ({},):
        model = exact(kind, scheme, **more)
        plain = model(**given).logits
        changed = model(**(given | {"input_ids": moved(given["input_ids"], mask == 0)})).logits
        if per_token:
            assert torch.equal(changed[mask > 0], plain[mask > 0])
            assert not torch.allclose(changed[mask == 0], plain[mask == 0])
        else:
            assert torch.equal(changed, plain)
        for i, real in enumerate(mask > 0):
            row = {
                name: x[i : i + 1] if name.startswith("decoder") else x[i : i + 1, real] for name, x in given.items()
            }
            close(plain[i, real] if per_token else plain[i], model(**row).logits[0])


@pytest.mark.parametrize(("scheme", "positions"), [
    *((one, "rotary") for one in ("lie", "macaron", "lie-postnorm", "strang-midpoint", "reversible", *DIFFUSING)),
    *(("macaron", positions) for positions in ("learned", "sinusoidal", "none")),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_packed_texts_do_not_mix(kind: str, scheme: str, positions: str) -> None:
    model, ids = exact(kind, scheme, positions=positions), tokens(length=12)
    packing = {"position_ids": RESTARTS} if kind == "causal" else {"seq_idx": SEQ_IDX}
    packed, plain = model(ids, use_cache=False, **packing).logits, model(ids, use_cache=False).logits
    for found, row, sizes in zip(packed, ids, LENGTHS, strict=True):
        for logits, text in zip(found.split(sizes), row.split(sizes), strict=True):
            close(logits, model(text[None], use_cache=False).logits[0])
    assert not torch.allclose(packed[0], plain[0], atol=1e-2)
    close(packed[1], plain[1])  # one text: the plain row


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "left-padded"])
@pytest.mark.parametrize("scheme", ROWS + DIFFUSING + KEEPING)
def test_a_cache_fed_in_pieces_gives_the_logits_of_the_whole(scheme: str, padded: bool, static: bool) -> None:
    if scheme in KEEPING and (padded or static):
        pytest.skip("the letter of this test reads no mask and no unused room")
    model, ids = exact("causal", scheme, positions="rotary"), tokens()
    mask = left_mask() if padded else torch.ones(3, LENGTH).long()
    masks = {"attention_mask": mask} if padded else {}
    whole = model(ids, use_cache=False, **masks).logits
    cache = StaticCache(config=model.config, max_cache_len=LENGTH + 2) if static else DynamicCache(config=model.config)
    pieces = [
        model(ids[:, i:j], past_key_values=cache, **{name: x[:, :j] for name, x in masks.items()}).logits
        for i, j in ((0, 1), (1, 4), (4, 5), (5, LENGTH))
    ]
    close(torch.cat(pieces, 1)[mask > 0], whole[mask > 0])
    keeps = [name for name in ss.scheme(scheme).fields if LETTERS[name[0]].cache == "self"]
    assert len(cache.layers) == 2 * sum(map(ss.scheme(scheme).count, keeps))


@pytest.mark.parametrize("scheme", ROWS + DIFFUSING)
def test_a_translator_decodes_with_a_cache_as_without(scheme: str) -> None:
    model, ids = exact("translation", scheme), tokens(2)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    pieces = [model(tokens(), decoder_input_ids=ids[:, i : i + 1], past_key_values=cache).logits for i in range(LENGTH)]
    close(torch.cat(pieces, 1), model(tokens(), decoder_input_ids=ids, use_cache=False).logits)


@pytest.mark.parametrize(
    ("kind", "scheme"), [*product(KINDS, (*DIFFUSING, *STRANGE)), *(("translation", scheme) for scheme in ROWS)]
)
def test_every_parameter_learns_and_every_product_is_counted(kind: str, scheme: str) -> None:
    model = tiny(kind, scheme, dropout=0.1, substeps=2, diffusion=0.2).train()
    model(**inputs(kind), labels=labels(kind)).loss.backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        if "qkv.bias" not in name and "C.kv.bias" not in name:  # a shift of all keys changes no softmax
            assert p.grad.abs().max() > 0, name
    given = {name: x[:1] for name, x in inputs(kind).items() if name != "attention_mask"}
    length = 4 if kind == "image" else LENGTH
    with FlopCounterMode(display=False) as counter, exact_attention(), torch.no_grad():
        sketch(model.config).to_empty(device="cpu").eval()(**given, use_cache=False)
    assert cost(model.config, length).flops == round(counter.get_total_flops() / length)


@pytest.mark.parametrize("scheme", ["lie", "strang-midpoint", "reversible"])
@pytest.mark.parametrize("kind", TEXT)
def test_a_row_of_nothing_but_padding_is_a_number(kind: str, scheme: str) -> None:
    """With attention dropout as without, and it leaves the other rows alone."""
    model = tiny(kind, scheme, attention_dropout=0.2)
    given = inputs(kind) | {"attention_mask": right_mask()}
    given["attention_mask"][2] = 0
    for mode in (True, False):
        out = model.train(mode)(**given, labels=labels(kind), dropout_seed=torch.tensor(5))
        assert out.logits.isfinite().all()
        out.loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    rows = model(**{name: x[:2] for name, x in given.items()}).logits
    torch.testing.assert_close(out.logits[:2], rows, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("scheme", DIFFUSING)
@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_diffusion_reads_documents_from_a_mask_of_four_dimensions(kind: str, scheme: str) -> None:
    model, ids, more = exact(kind, scheme, positions="rotary"), tokens(), {"use_cache": False}
    mask = right_mask()
    full = mask.bool()[:, None, None, :].expand(-1, -1, LENGTH, -1)
    texts = torch.block_diag(torch.ones(3, 3), torch.ones(4, 4)).bool()[None, None].expand(3, -1, -1, -1)
    full, texts = (x.tril() if kind == "causal" else x for x in (full, texts))
    expected = model(ids, attention_mask=mask, **more).logits[mask > 0]
    for given in (full, torch.zeros(full.shape).masked_fill(~full, -torch.inf)):
        close(model(ids, attention_mask=given, **more).logits[mask > 0], expected, 1e-4)  # angles are single precision
    pieces = [model(ids[:, cut], **more).logits for cut in (slice(0, 3), slice(3, LENGTH))]
    close(model(ids, attention_mask=texts, **more).logits, torch.cat(pieces, 1), 1e-4)


def test_a_strangers_letter_has_twins_a_place_a_colour_and_a_part_of_its_own() -> None:
    reference = ss.CausalConfig(layers=4, width=64, heads=4, ffn=512)
    other = twin(reference, "A F G")
    assert other.scheme == "A F G"
    assert abs(cost(other).body / cost(reference).body - 1) < 1e-3
    drifts = [one for one in tiny("translation", "F0/2 A G+H F1/2").modules() if type(one).__name__ == "Drift"]
    assert {drift.spec.name for drift in drifts} == {"G", "H"}
    assert len({drift.spec.salt for drift in drifts}) == len(drifts) == 8
    assert 'fill="#123456"' in draw(ss.scheme("A F G"))
    assert 'fill="#8a93a3"' in draw(ss.scheme("A F Z"))  # nobody's letter is grey
    with pytest.raises(ValueError, match=r"A\+G of 'A\+G F' sums several fields that look at earlier tokens"):
        tiny("causal", "A+G F")


def test_the_rows_of_the_table_of_letters() -> None:
    assert list(LETTERS.own) == ["A", "F", "C", "D", "S"]
    assert [letter for letter, row in LETTERS.own.items() if not row.backwards] == ["D"]
    assert [letter for letter, row in LETTERS.own.items() if row.free] == ["A", "F", "D", "S"]
    assert [letter for letter, row in LETTERS.own.items() if row.mixes] == ["A", "D"]
    assert {letter: row.cache for letter, row in LETTERS.own.items()} == dict(
        A="self", F="none", C="cross", D="self", S="none"
    )


def test_a_letter_that_is_not_pure_moves_no_half_of_a_pair() -> None:
    LETTERS.own["R"] = Letter("random", "#123456", pure=False)
    assert str(ss.scheme("A F R")) == "A F R"
    with pytest.raises(ValueError, match=r"a:F\+R: the backward pass of a pair .* evaluates R again"):
        ss.scheme("b:A a:F+R")
