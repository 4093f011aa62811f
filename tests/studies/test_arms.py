"""Arms by their texts: what each means, and which are refused."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from strangers import gpt2, llama, write_block, write_config

from splitstep.experiments.arms import read_arms
from splitstep.models.cost import TOLERANCE
from splitstep.models.leaks import leak_of
from splitstep.opening.others import build
from splitstep.recipe import Recipe
from splitstep.shelf import SHELF
from splitstep.studies.compare.arms import KNOWN, fitted_arms
from splitstep.training import train
from splitstep.training.networks import build_model, cost_of

SIZES = (
    "data.length=24", "model.layers=2", "model.width=32", "model.heads=4", "model.ffn=128", "train.steps=2",
    "train.batch=4", "train.warmup=1", "train.lr=1e-3", "train.mode=eager",
)  # fmt: skip


MEANINGS: dict[str, dict[str, Any]] = {
    "lie": {"scheme": "A F"},
    "F/2 A F/2 @heun": {"scheme": "F/2 A F/2 @heun"},
    "=A =F": {"scheme": "=A =F"},
    "F A": {"scheme": "F A"},
    "swiglu": {"scheme": "A F", "model.activation": "swiglu"},
    "post": {"scheme": "A N F M"},
    "diffusion": {"scheme": "A F D@exact"},
    "lie model.norm=rms": {"scheme": "A F", "model.norm": "rms"},
    "macaron model.norm=rms train.clip=0.5": {"scheme": "F0/2 A F1/2", "model.norm": "rms", "train.clip": 0.5},
    "swiglu model.bias=false": {"scheme": "A F", "model.activation": "swiglu", "model.bias": False},
    "qk-norm": {"scheme": "A F", "model.letters.A.qk_norm": "rms"},
    "model.letters.F.norm_at=both": {"scheme": "A F", "model.letters.F.norm_at": "both"},
    "model.heads=2": {"scheme": "A F", "model.heads": 2},
    "mine": {"scheme": "A F", "model.activation": "relu", "train.clip": 2.0},
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_text_means_entries_of_the_recipe(text: str, recipe: Callable[..., Recipe]) -> None:
    own = {"mine": {"model.activation": "relu", "train.clip": 2.0}}
    assert read_arms([text], recipe(), own) == {text: MEANINGS[text]}


def test_what_names_no_network_changes_the_scheme_of_the_first_arm(recipe: Callable[..., Recipe]) -> None:
    found = read_arms(["macaron", "swiglu", "post", "lie model.norm=rms"], recipe())
    assert [one["scheme"] for one in found.values()] == ["F0/2 A F1/2", "F0/2 A F1/2", "F0/2 N A M F1/2 P", "A F"]


def test_files_are_arms(recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    texts = [write_block(tmp_path), write_config(tmp_path, llama()), write_config(tmp_path, gpt2()) + ":as-is"]
    arms = read_arms(["lie", *texts], recipe())
    assert list(arms) == ["lie", "mine.py:block", "llama.json", "gpt2.json:as-is"]
    assert [one["network"]["name"] for one in list(arms.values())[1:]] == ["block", "config", "config"]
    assert recipe().changed(arms["gpt2.json:as-is"]).source.kept  # pyright: ignore


REFUSED = {
    "an empty one": (["lie", ""], "has an empty entry: write --arms lie,macaron"),
    "unknown": (["lie", "swiglo"], 'there is no arm "swiglo": did you mean "swiglu"'),
    "nothing near": (["lie", "zzz"], "name a scheme, one of `splitstep arms`, FILE.py:NAME or FILE.json"),
    "twice": (["lie", "swiglu", "swiglu"], "the arm swiglu is listed twice"),
    "the same": (["lie", "A F"], "the arms lie and A F are the same for this recipe"),
    "two meanings": (
        ["lie", "rms"],
        'the arm "rms" is a modification and an arm of the recipe: type "model.norm=rms" for a modification or '
        '"model.norm=layer" for an arm of the recipe',
    ),
    "a row and one's own": (
        ["lie", "parallel"],
        r'the arm "parallel" is a scheme and an arm of the recipe: type "A\+F" for a scheme or "model.bias=false" for',
    ),
    "more FLOPs": (["lie", "midpoint"], "midpoint evaluates networks more than once a step, .*: add --match flops"),
    "no file": (["lie", "nosuch.py:block"], "there is no file nosuch.py: type FILE.py:NAME"),
    "no config": (["lie", "nosuch.json"], "there is no file nosuch.json: name the config.json of a causal model"),
    "no name": (["lie", "mine.py"], "'mine.py' does not name a block: type FILE.py:NAME"),
    "a notation": (["lie", "A )"], r"A \)"),
    "an entry of all": (["lie", "lie train.lr=1e-2"], "sets train.lr, which must be the same for all arms"),
    "a wrong entry": (["lie", "lie model.nrom=rms"], 'the model has no entry "nrom"; did you mean "norm"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_means_nothing_or_two_things_is_refused_in_one_line(case: str, recipe: Callable[..., Recipe]) -> None:
    texts, message = REFUSED[case]
    own = {"rms": {"model.norm": "layer"}, "parallel": {"model.bias": False}}
    with pytest.raises(ValueError, match=message) as raised:
        read_arms(texts, recipe(), own)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", SHELF)
def test_each_modification_changes_something_costs_the_same_and_sees_nothing(
    name: str, recipe: Callable[..., Recipe]
) -> None:
    one = SHELF[name]
    positions = "learned" if name == "rotary" else "rotary"
    asked = recipe(f"model.positions={positions}", f"match={'flops' if one.costs_flops else 'parameters'}")
    task = asked.load_task()
    first, other = fitted_arms(read_arms(["lie", name], asked), asked, task)
    assert other.fit.cost == cost_of(other.entrant.recipe, task)
    assert other.fit.ratio == pytest.approx(1, abs=4 * TOLERANCE[asked.match])  # pyright: ignore[reportArgumentType]
    model = build_model(other.entrant.recipe, task)
    assert leak_of(model, 24) is None
    ids = torch.randint(256, (1, 24), generator=torch.Generator().manual_seed(0))
    same = build_model(first.entrant.recipe, task)
    assert not torch.allclose(model(input_ids=ids).logits, same(input_ids=ids).logits, atol=1e-4)


def test_papers_are_cited_in_full() -> None:
    for one in SHELF.values():
        year, number = one.paper.arxiv.split(".")
        assert len(year) == 4
        assert len(number) == 5
        assert 2000 + int(year[:2]) == one.paper.year
        assert one.paper.title
        assert one.what == one.what.strip(".")


def test_arms_get_the_first_ones_cost_once(recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    asked = recipe()
    task, texts = asked.load_task(), ["lie", "swiglu", write_block(tmp_path), write_config(tmp_path, llama())]
    found = fitted_arms(read_arms(texts, asked), asked, task)
    assert [one.entrant.alone for one in found] == [True] * 4
    assert len({one.entrant.folder for one in found}) == 4
    for one in found[1:]:
        assert one.fit.ratio == pytest.approx(1, abs=0.01)
    known = len(KNOWN)
    longer = asked.changed({"train.steps": 7})
    again = fitted_arms(read_arms(texts, longer), longer, task)
    assert len(KNOWN) == known
    assert [one.entrant.recipe.train.steps for one in again] == [7] * 4
    assert [one.fit for one in again] == [one.fit for one in found]
    assert train(found[1].entrant.runs([0])[0].recipe, tmp_path / "run", quiet=True).cost == found[1].fit.cost


SIZED = {
    "a scheme first": (["lie model.width=64 model.tie_word_embeddings=false"], (64, 2, 4, False)),
    "a config first": (["{small}:as-is"], (48, 3, 2, True)),
}


@pytest.mark.parametrize("case", SIZED)
def test_networks_of_others_have_the_size_and_tying_of_the_first_arm(
    case: str, recipe: Callable[..., Recipe], tmp_path: Path
) -> None:
    """The recipe's own are a width of 32, 2 layers, 4 heads and tied embeddings. An arm may set its own."""
    small = write_config(
        tmp_path, llama(hidden_size=48, num_hidden_layers=3, num_attention_heads=2, vocab_size=99), "s"
    )
    names, size = SIZED[case]
    texts = [*(name.format(small=small) for name in names), write_config(tmp_path, llama()), write_block(tmp_path)]
    asked = recipe("model.positions=rotary")
    task = asked.load_task()
    arms = fitted_arms(read_arms([*texts, f"{texts[1]} model.layers=1"], asked), asked, task)
    others = [build(one.entrant.recipe, task, math.inf).config for one in arms[1:]]
    found = [(c.hidden_size, c.num_hidden_layers, c.num_attention_heads, c.tie_word_embeddings) for c in others]
    assert found == [size, size, (size[0], 1, *size[2:])]
    assert others[1].around.positions == "learned", "rotary positions are inside of attention"
    assert [one.fit.ratio for one in arms] == pytest.approx([1.0] * 4, abs=0.02)
