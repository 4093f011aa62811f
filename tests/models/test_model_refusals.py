"""Wrong entries, inputs and requests are one line that says what is needed; unusual ones that are right still pass."""

import re
from functools import partial
from typing import Any

import pytest
import torch
from tiny import LENGTH, VOCAB, inputs, labels, tiny, tokens

import splitstep as ss
from splitstep.models import KINDS, SplitstepConfig, coarsened, cost, refined, twin
from splitstep.models.config import kind_of
from splitstep.models.rebuilt import replayed

TEXT = ["causal", "masked", "sequence", "translation"]
ONE_TEXT = TEXT[:3]
PLACES = torch.arange(LENGTH)[None]
WIDE = ss.CausalConfig(layers=6, width=256, heads=4, ffn=1024)
SMALL: Any = partial(ss.CausalConfig, layers=1, width=16, heads=4)
LETTERS = re.escape("it has A (attention), F (feed-forward), V (convolution), D (diffusion), S (stabiliser) and the")

ENTRIES: list[tuple[str, dict[str, Any], str]] = [
    *((kind, {"scheme": "A F Z"}, f"^The scheme .*{LETTERS}") for kind in KINDS),
    ("masked", {"scheme": "A C F"}, r"^The scheme .*a decoder adds C \(cross-attention\) by itself"),
    *(("sequence", {name: 0}, f"{name}=0 must be a positive number") for name in ("step", "head_size", "substeps")),
    *(
        ("sequence", {"letters": letters}, f"^letters.{where}")
        for letters, where in (
            ({"D": {"alpha": -0.5}}, r"D: option alpha is -0.5, and needs a positive number$"),
            ({"S": {"gamma": 0}}, r"S: option gamma is 0.0, and needs a positive number$"),
            ({"D": {"alpha": "much"}}, r"D: option alpha is 'much', and needs a number$"),
            ({"D": {"alhpa": 0.2}}, r'D has no option "alhpa"; did you mean "alpha"\?$'),
            ({"S": {"alpha": 0.2}}, r'S has no option "alpha"; its options are: gamma \(a number\)$'),
            ({"D": {"boundary": "upwind"}}, 'D: option boundary is .upwind., and needs "reflecting" or "fixed"$'),
            ({"F0": {"norm_at": "output"}}, 'F0: option norm_at is .output., and needs "before" or "after" or'),
            ({"f": {}}, r"f: options belong to a letter such as A, or to a field such as F0\.$"),
            ({"D": 0.3}, "D is 0.3, and needs entries of its own$"),
        )
    ),
    *(
        (kind, {"scheme": "A V F", "letters": {"V": options}}, says)
        for kind, options, says in (
            (
                "vectors",
                {"kernel": 4},
                "letters.V.kernel=4 is even, and V looks both ways here: use an odd number, such",
            ),
            ("translation", {"kernel": 4}, "use an odd number, such as 5"),  # its encoder
            ("image", {"window": "causal"}, "letters.V.window=causal has no meaning on images"),
            ("causal", {"kernel": 0}, "option kernel is 0, and needs a whole number from 1 to 4,096"),
            ("causal", {"kernel": 10**9}, "from 1 to 4,096"),
            ("causal", {"kernl": 3}, 'did you mean "kernel"'),
            ("causal", {"norm": "batch"}, "norm is 'batch', and needs"),
        )
    ),
    ("sequence", {"letters": {"Z": {}}}, '^there is no letter "Z"; the letters are A, F, C, V, D, S'),
    ("sequence", {"letters": {"D": {"alpha": 0.2}}, "diffusion": 0.3}, "^diffusion and letters.D.alpha are two names"),
    (
        "sequence",
        {"scheme": "A F D", "diffusion": 0.6},
        "^letters.D.alpha=0.6: .* is above 0.5.*write D@exact, or use 2",
    ),
    ("sequence", {"scheme": "A F D", "diffusion": 0.3, "step": 4, "substeps": 2}, "0.3 . 2 = 0.6 is above 0.5"),
    ("image", {"scheme": "A F D", "diffusion": 0.3}, "0.3 is above 0.25, the limit"),
    ("causal", {"scheme": "A F D", "diffusion": 1.1}, "1.1 is above 1, the limit"),
    ("causal", {"scheme": "A F D", "ends": "fixed"}, "a causal model may not look at later tokens: leave it out"),
    ("sequence", {"scheme": "A S F", "norm": "none"}, "use norm=layer or norm=rms"),
    ("sequence", {"norm_at": "output"}, "norm_at"),
    ("causal", {"scheme": "A+D F"}, "sums several fields that look at earlier tokens"),
    ("causal", {"init_modes": 3, "ffn": [32, 64]}, "give all layers the same ffn"),
    ("causal", {"init_modes": -1}, "init_modes=-1 must be 0"),
    ("causal", {"activation": {"F": "gelu", "G": "relu"}}, "must name each of the scheme's feed-forward fields: F"),
    ("causal", {"head_size": 10**8}, "4 heads of head_size=100000000 are too wide together: use at most 100,000,000"),
    ("causal", {"hidden_size": 64, "width": 32}, "^hidden_size=64 and width=32 are two names of one entry: give one"),
    ("translation", {"num_hidden_layers": 2, "layers": 3}, "^num_hidden_layers=2 and layers=3 are two names"),
]
POSITIONS = r"^position_ids have shape .*: the tokens need \[3, 7\]"
CALLS: list[tuple[str, dict[str, Any], str]] = [
    *(
        (kind, {"attention_mask": torch.ones(3, 7, 7)}, r"^attention_mask has shape \[3, 7, 7\]: use \[batch, tokens\]")
        for kind in TEXT
    ),
    *((kind, {"position_ids": PLACES[0]}, POSITIONS) for kind in ONE_TEXT),
    *(("causal", {"position_ids": x, "attention_mask": None}, POSITIONS) for x in (PLACES[:, 1:], PLACES.expand(2, 7))),
    *((kind, {"position_ids": PLACES + 34}, r"^position_ids hold 40, .* has 40: use 0 to 39\.$") for kind in ONE_TEXT),
    *(
        (kind, {"labels": labels(kind)[:2]}, r"^labels have shape \[.*\], and there are logits for \[3")
        for kind in KINDS
    ),
    *(
        (kind, {"input_ids": tokens().index_fill(1, torch.tensor([4]), wrong)}, f"^input_ids hold {wrong}, .* {VOCAB}")
        for kind, wrong in zip(TEXT, (VOCAB, -1, VOCAB, -1), strict=True)
    ),
    (
        "translation",
        {"encoder_outputs": (torch.zeros(3, 7, 16),), "input_ids": None, "attention_mask": torch.ones(3, 1, 7)},
        "^attention_mask has shape",
    ),
    ("masked", {"seq_idx": PLACES[:, 1:]}, r"^seq_idx has shape \[1, 6\]: the tokens need \[3, 7\]"),
    ("masked", {"seq_idx": PLACES, "attention_mask": torch.ones(3, 1, 7, 7)}, "leave one out"),
    ("masked", {"labels": tokens(), "masked_positions": torch.zeros(3, 2).long()}, "one label for each"),
]
REQUESTS: list[tuple[Any, str]] = [
    (lambda: kind_of(SplitstepConfig()), "^SplitstepConfig does not belong to a model: use one of CausalConfig, "),
    (lambda: cost(SplitstepConfig(), 10), "does not belong to a model"),
    (lambda: cost(ss.CausalConfig(), 2000), "max_positions=1024"),
    (lambda: cost(ss.CausalConfig(), 0), "positive"),
    (lambda: cost(ss.ImageConfig(), 10), "always has 49 patches"),
    (lambda: cost(ss.CausalConfig(), 10, 10), "encoder-decoders"),
    (lambda: twin(SMALL(ffn=32), "rk4", "flops", 64), "at length 64.*layers=1, ffn=1"),
    (lambda: twin(SMALL(ffn=3), "A0/2 F A1/2"), "no nearer than .* more"),
    (lambda: twin(WIDE, "A0/3 F A1/3 A2/3"), r"no nearer than .* \(layers=6, ffn=1\), .* more"),
    (lambda: twin(WIDE, "A"), r"no nearer than .* \(layers=6, ffn=none\), .* fewer"),
    (lambda: twin(ss.TranslationConfig(layers=6, decoder_layers=5), "rk4", "flops"), r"6 \+ 5.*common divisor"),
    (lambda: twin(ss.CausalConfig(), "macron"), "Did you mean macaron"),
    (lambda: twin(ss.CausalConfig(), "A F Z", "flops"), "^The scheme"),
    (lambda: twin(ss.CausalConfig(), "macaron", "bytes"), "use 'parameters' or 'flops'"),  # pyright: ignore
    (
        lambda: twin(ss.CausalConfig(scheme="macaron", activation={"F0": "gelu", "F1": "relu"}), "lie"),
        "names the fields of F0/2 A F1/2; A F has F: give",
    ),
    (lambda: refined(tiny("causal", "lie-postnorm")), "'A N F M' projects or replaces the state"),
    (lambda: coarsened(tiny("masked", "=A F")), "'=A F' projects or replaces the state"),
    (lambda: coarsened(tiny("translation"), 4), "2 layers cannot be joined by 4"),
    (lambda: coarsened(tiny("causal", ffn=[8, 9])), r"unequal widths ffn=\[\[8\], \[9\]\] have no mean"),
    (lambda: refined(tiny("causal"), 0), "times=0"),
    (lambda: replayed(tiny("image", ffn=[8, 16]), "F0/2 A F1/2"), "say whose weights it gets"),
    (lambda: replayed(tiny("image", "A N F M"), "A F"), "cannot replace each other"),
    (lambda: replayed(tiny("image"), "A N F M"), "needs weights for M"),
    (lambda: replayed(tiny("image"), norm="rms"), "norm='rms': the weights are those of norm='layer'"),
]


def call(kind: str, given: dict[str, Any]) -> None:
    tiny(kind)(**(inputs(kind) | given))


WRONG = [
    *((partial(tiny, kind, **entries), says) for kind, entries, says in ENTRIES),
    *((partial(call, kind, given), says) for kind, given, says in CALLS),
    *REQUESTS,
]


@pytest.mark.parametrize(("wrong", "says"), WRONG)
def test_what_is_wrong_is_one_clear_line(wrong: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        wrong()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ONE_TEXT)
def test_positions_may_be_given_once_for_all_rows(kind: str) -> None:
    for right in (PLACES, PLACES.expand(3, -1)):
        assert tiny(kind)(**inputs(kind), position_ids=right).logits.isfinite().all()


def test_two_names_of_one_entry_may_agree() -> None:
    agreed: Any = ss.CausalConfig(hidden_size=64, width=64)  # pyright: ignore[reportCallIssue]
    assert agreed.width == agreed.hidden_size == 64
    assert ss.CausalConfig.from_dict(agreed.to_dict(), hidden_size=32).width == 32


def test_the_whole_equation_may_be_one_part_of_a_two_sided_model() -> None:
    tiny("sequence", "A+D+F+S @rk4")(tokens())
