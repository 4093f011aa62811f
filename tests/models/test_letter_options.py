"""Options of letters: their place in config.json and in recipes, and where the norms of fields are."""

import json
import re
from pathlib import Path
from typing import Any

import golden
import pytest
import torch
from golden_sections import answers, answers_of, shapes
from tiny import drawn
from torch import Tensor, nn
from transformers import AutoConfig

import splitstep as ss
from splitstep.fields import Context
from splitstep.letters import AttentionOptions, DiffusionOptions, NetworkOptions
from splitstep.options import converted
from splitstep.recipe import read_assignments, read_recipe
from splitstep.shape import CausalShape

SMALL: dict[str, Any] = dict(layers=1, width=16, heads=4, ffn=24, vocab_size=29, positions="none", init_std=0.3)


USUAL = {name: value for name, value in vars(AttentionOptions()).items() if value is not None}


def config(scheme: str, **more: Any) -> Any:
    return ss.CausalConfig(**SMALL, scheme=scheme, **more)


def test_they_stand_under_the_letters_name_and_are_complete(tmp_path: Path) -> None:
    made = config("A F D@exact", letters={"D": {"alpha": 0.2}})
    made.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["format"] == 2
    assert stored["letters"] == {"A": USUAL, "D": {"alpha": 0.2, "boundary": "reflecting"}}
    assert not stored.keys() & {"diffusion", "ends", "stabiliser", "rotary_bias"}
    assert AutoConfig.from_pretrained(tmp_path).letters == made.letters
    (tmp_path / "config.json").write_text(json.dumps({**stored, "letters": {"F0": {"norm": "both"}}}))
    with pytest.raises(ValueError, match=r"^letters\.F0 has no option"):
        AutoConfig.from_pretrained(tmp_path)
    assert made.options_of("D") == DiffusionOptions(0.2)
    assert made.options_of("A") == AttentionOptions()


def test_a_fields_own_options_go_before_those_of_its_letter() -> None:
    made = config("macaron", letters={"F": {"norm_at": "both"}, "F0": {"norm_at": "none"}})
    assert made.options_of("F0") == NetworkOptions("none")
    assert made.options_of("F1") == NetworkOptions("both")
    again = ss.CausalConfig(**{name: getattr(made, name) for name in made.entries()})
    assert again.letters == made.letters


def test_options_of_letters_that_a_scheme_lacks_wait_for_one_that_has_them() -> None:
    reference = config("A F", letters={"D": {"alpha": 0.3}, "S": {"gamma": 1}})
    assert reference.letters == {"A": USUAL, "D": {"alpha": 0.3, "boundary": "reflecting"}}
    twin = ss.twin(reference, "A F D@exact S", length=8)
    assert twin.options_of("D").alpha == 0.3
    assert twin.letters["S"] == {"gamma": 1.0}


TYPED = "model.letters.D.alpha=0.2"


@pytest.mark.parametrize(("before", "typed", "after"), [
    ({}, TYPED, {"D": {"alpha": 0.2}}),
    ({}, "model.diffusion=0.2", {"D": {"alpha": 0.2}}),
    ({"diffusion": 0.1, "stabiliser": 0.5}, "model.layers=1", {"D": {"alpha": 0.1}, "S": {"gamma": 0.5}}),
    ({"letters": {"D": {"alpha": 0.1, "boundary": "fixed"}}}, TYPED, {"D": {"alpha": 0.2, "boundary": "fixed"}}),
    ({"letters": {"A": {"bias_start": 1}}}, "model.letters.F0.norm_at=both",
     {"A": {"bias_start": 1}, "F0": {"norm_at": "both"}}),
    ({"ends": "fixed"}, "model.letters={F: {norm_at: none}}", {"F": {"norm_at": "none"}}),
])  # fmt: skip
def test_recipes_take_options_by_their_new_and_by_their_old_names(before: Any, typed: str, after: Any) -> None:
    given = {"positions": "rotary", **before}
    recipe = read_recipe({"task": "digits", "model": given}, "r").changed(read_assignments([typed]))
    assert recipe.model["letters"] == after
    assert read_recipe(recipe.document(), "again") == recipe


def test_what_format_1_said_is_read_as_format_2() -> None:
    old = {"diffusion": 0.3, "ends": "upwind", "stabiliser": 1.0, "rotary_bias": 0.0, "norm_at": "input", "width": 8}
    new = {"D": {"alpha": 0.3}, "S": {"gamma": 1.0}, "A": {"bias_start": 0.0}}
    assert converted(old) == {"width": 8, "norm_at": None, "letters": new}
    assert converted({"width": 8}) == {"width": 8}
    assert CausalShape(letters=new).letters == {"A": USUAL, "D": {"alpha": 0.3, "boundary": "reflecting"}}


STORED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "format_1.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", STORED)
def test_a_config_stored_before_format_2_means_the_same_network(name: str, tmp_path: Path) -> None:
    """It opens, and gives the same logits bit for bit."""
    (tmp_path / "config.json").write_text(json.dumps(STORED[name]), encoding="utf-8")
    kind, entries = shapes()[name]
    found = answers_of(kind, drawn(kind, AutoConfig.from_pretrained(tmp_path)))
    assert found == answers(kind, entries)
    if not golden.other_ground("models"):  # the weights and the logits of the day on which the files were written
        assert golden.mark(found) == golden.stored()["models"][name]


NORMS: dict[str, tuple[bool, bool]] = {
    "before": (True, False), "after": (False, True), "both": (True, True), "none": (False, False),
}  # fmt: skip  # before the network, after it


def written_out(field: Any, x: Tensor, before: bool, after: bool, projected: bool) -> Tensor:
    """x <- x + F(x) by PyTorch alone, and the projection N."""
    norm = lambda y: nn.functional.layer_norm(y, y.shape[-1:])  # noqa: E731  # weights of 1, biases of 0
    inner = nn.functional.gelu(field.up(norm(x) if before else x))
    x = x + (norm(field.down(inner)) if after else field.down(inner))
    return norm(x) if projected else x


@pytest.mark.parametrize("by", ["config", "letter", "field"])
@pytest.mark.parametrize("scheme", ["F", "F N"])
@pytest.mark.parametrize("norm_at", NORMS)
def test_a_field_has_its_norms_where_they_are_asked_for(norm_at: str, scheme: str, by: str) -> None:
    other = "none" if norm_at == "both" else "both"
    ways: dict[str, dict[str, Any]] = {
        "config": {"norm_at": norm_at},
        "letter": {"norm_at": other, "letters": {"F": {"norm_at": norm_at}}},
        "field": {"letters": {"F": {"norm_at": other}, "F0": {"norm_at": norm_at}}},
    }
    name = "F0" if by == "field" else "F"
    model = drawn("causal", config(scheme.replace("F", name), **ways[by])).double()
    x, field = torch.randn(2, 5, 16).double(), model.body.stack.layers[0].get_submodule(name)
    expected = written_out(field, x, *NORMS[norm_at], scheme == "F N")
    torch.testing.assert_close(model.body.stack(x, Context()), expected)
    assert isinstance(model.body.norm, nn.Identity) == (scheme == "F N")


def test_without_a_word_there_is_a_norm_before_and_none_beside_projections() -> None:
    for scheme, norms in {"A F": (True, False), "A N F M": (False, False)}.items():
        made = config(scheme)
        assert {made.norms_of(name) for name in ("A", "F")} == {norms}
    mixed = config("A N F M", norm_at="before", letters={"F": {"norm_at": "after"}})
    assert mixed.norms_of("A") == (True, False)
    assert mixed.norms_of("F") == (False, True)


MATHEMATICS = {"scheme.py", "stability.py"}  # where a letter stands for an operator of the equation
ASKS_FOR_A_LETTER = re.compile(r"""name\[0\] (==|!=|in \()|["'][A-Z]["'] (not )?in [\w.()]*(scheme|fields|notation)""")


def test_only_the_mathematics_asks_which_letter_it_is() -> None:
    """Elsewhere a letter's row says what its field is."""
    package = Path(ss.__file__).parent
    asking = {str(f.relative_to(package)) for f in package.rglob("*.py") if ASKS_FOR_A_LETTER.search(f.read_text())}
    assert asking == MATHEMATICS
    assert ASKS_FOR_A_LETTER.search('if "D" in recipe.scheme.fields:')
