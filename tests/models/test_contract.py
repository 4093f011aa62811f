"""What every model promises is kept by every row of the table, by diffusion and by letters of other packages: later
tokens change nothing, padding changes nothing, packed texts do not mix, a cache changes nothing, costs are counted."""

from itertools import product
from typing import Any

import pytest
import torch
from tiny import LENGTH, inputs, labels, right_mask, tiny, tokens
from torch import Tensor
from transformers import DynamicCache

import splitstep as ss
from splitstep.letters import LETTERS, Letter
from splitstep.models import KINDS, contract, cost, twin
from splitstep.report.diagram import GREY, draw

ROWS = list(ss.SCHEMES)
DIFFUSING = ["A F D@exact", "D/2 A F D/2", "D/2@exact F/2 A F/2 D/2 @heun"]
CONVOLVING = ["A V F", "V0/2 F A V1/2 @midpoint", "F0/2 A V F1/2 N @heun", "b:A+F a:V"]
STRANGE = ["A F G", "F0/2 A G+H F1/2 @heun", "A N F M G P H"]
TEXT = ["causal", "masked", "sequence", "translation"]
ALPHA: dict[str, Any] = {"letters": {"D": {"alpha": 0.4}}}

pytestmark = pytest.mark.usefixtures("stranger")


def exact(kind: str, scheme: str, **more: Any) -> Any:
    """A model in double precision: attention that prefers some keys by far makes much of rounding."""
    return tiny(kind, scheme, **(ALPHA | more)).double()


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("kind", "scheme"), [
    *product(("causal", "masked", "translation"), ROWS),
    *product(KINDS, (*DIFFUSING, *CONVOLVING, *STRANGE)),
    *product(("sequence", "vectors", "image"), ("lie", "macaron-postnorm", "conformer", "strang-midpoint")),
    *product(("sequence", "vectors", "image"), ["reversible"]),
])  # fmt: skip
def test_every_promise_is_kept(kind: str, scheme: str) -> None:
    contract.check(scheme, KINDS[kind].config(positions="rotary", **ALPHA))


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("scheme", ["macaron", "F"])
def test_every_promise_is_kept_with_other_positions(scheme: str, kind: str, positions: Any) -> None:
    """Without attention, too: a cache then counts the tokens that have a position."""
    contract.check(scheme, KINDS[kind].config(positions=positions))


@pytest.mark.parametrize("scheme", DIFFUSING)
@pytest.mark.parametrize("kind", ["masked", "sequence", "translation", "vectors", "image"])
def test_every_promise_is_kept_with_fixed_ends(kind: str, scheme: str) -> None:
    contract.check(scheme, KINDS[kind].config(letters={"D": {"alpha": 0.4, "boundary": "fixed"}}))


@pytest.mark.parametrize(("kind", "options"), [
    *product(KINDS, ({"kernel": 1, "norm": "none"}, {"kernel": 5, "norm": "rms"})),
    ("causal", {"kernel": 6}), *product(("masked", "translation"), [{"kernel": 4, "window": "causal"}]),
])  # fmt: skip
def test_every_promise_is_kept_by_convolutions_of_all_sizes(kind: str, options: dict[str, Any]) -> None:
    contract.check("A V F", KINDS[kind].config(letters={"V": options}))


@pytest.mark.parametrize("scheme", [*ROWS, *DIFFUSING, *CONVOLVING, *STRANGE])
def test_a_cache_has_a_slot_for_each_evaluation(scheme: str) -> None:
    model, cache = tiny("causal", scheme), DynamicCache()
    model(tokens(), past_key_values=cache)
    keeps = [name for name in ss.scheme(scheme).fields if LETTERS[name[0]].cache == "self"]
    assert len(cache.layers) == 2 * sum(map(ss.scheme(scheme).count, keeps))


@pytest.mark.parametrize(
    ("kind", "scheme"), [*product(KINDS, (*DIFFUSING, *CONVOLVING, *STRANGE)), *(("translation", one) for one in ROWS)]
)
def test_every_parameter_learns(kind: str, scheme: str) -> None:
    model = tiny(kind, scheme, dropout=0.1, substeps=2, letters={"D": {"alpha": 0.2}}).train()
    model(**inputs(kind), labels=labels(kind)).loss.backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        if "qkv.bias" not in name and "C.kv.bias" not in name:  # a shift of all keys changes no softmax
            assert p.grad.abs().max() > 0, name


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


@pytest.mark.parametrize("scheme", [*DIFFUSING, *CONVOLVING])
@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_fields_read_documents_from_a_mask_of_four_dimensions(kind: str, scheme: str) -> None:
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
    assert str(other.scheme) == "A F G"
    assert abs(cost(other).body / cost(reference).body - 1) < 1e-3
    drifts = [
        one for one in tiny("translation", "F0/2 A G+H F1/2").modules() if type(one).__name__ in ("Drift", "Pull")
    ]
    assert {drift.spec.name for drift in drifts} == {"G", "H"}
    assert len({drift.spec.salt for drift in drifts}) == len(drifts) == 8
    assert 'fill="#123456"' in draw(ss.scheme("A F G"))
    assert f'fill="{GREY}"' in draw(ss.scheme("A F Z"))  # nobody's letter is grey
    with pytest.raises(ValueError, match=r"A\+G of 'A\+G F' sums several fields that look at earlier tokens"):
        tiny("causal", "A+G F")


def test_a_letter_that_is_not_pure_moves_no_half_of_a_pair() -> None:
    LETTERS.own["R"] = Letter("random", "#123456", pure=False)
    assert str(ss.scheme("A F R")) == "A F R"
    with pytest.raises(ValueError, match=r"a:F\+R: the backward pass of a pair .* evaluates R again"):
        ss.scheme("b:A a:F+R")
