"""Arms of equal cost: counted operations are those of our formulas, and widths are fitted to the first arm."""

from collections.abc import Callable
from pathlib import Path

import pytest
from strangers import GOOD, HEAD, gpt2, llama, write_block, write_config

from splitstep.models import CausalConfig, SplitstepForCausalLM, cost
from splitstep.models.cost import TOLERANCE, counted
from splitstep.opening.fit import fitted, nearest_width
from splitstep.recipe import Recipe
from splitstep.schemes import SCHEMES
from splitstep.training.networks import cost_of

SIZES = (
    "data.length=32", "model.layers=2", "model.width=64", "model.heads=4", "model.ffn=256", "train.steps=2",
    "train.warmup=1",
)  # fmt: skip


@pytest.mark.parametrize("row", SCHEMES)
def test_counted_operations_are_those_of_the_formulas(row: str) -> None:
    config = CausalConfig(scheme=row, layers=2, width=32, heads=4, kv_heads=2, ffn=40, vocab_size=50, max_positions=24)
    assert counted(lambda: SplitstepForCausalLM(config), 24) == cost(config, 24)


def test_a_model_that_reads_its_numbers_is_counted_too(recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    text = GOOD.replace("return x + self.scale", "assert float(x.sum()) < 1e9\n        return x + self.scale")
    plain, odd = (
        cost_of(asked, asked.load_task())
        for asked in (recipe(f"network={{name: block, file: '{write_block(tmp_path, one)}'}}") for one in (GOOD, text))
    )
    assert plain == odd
    layer = 8 * 64 * 64 + 4 * 64 * 256 + 4 * 32 * 64  # four matrices of attention, two of ffn, queries and keys
    assert plain.flops == 2 * layer + 2 * 64 * 256


@pytest.mark.parametrize("match", ["parameters", "flops"])
@pytest.mark.parametrize("entries", [
    {"model.activation": "swiglu"},
    {"model.activation": "swiglu", "scheme": "macaron"},
    {"model.bias": False},
    {"model.kv_heads": 1},
    {"scheme": "parallel", "model.norm": "rms"},
], ids=lambda one: " ".join(map(str, one.values())))  # fmt: skip
def test_arms_of_one_scheme_get_equal_cost(
    entries: dict[str, object], match: str, recipe: Callable[..., Recipe]
) -> None:
    first = recipe(f"match={match}")
    task = first.load_task()
    goal = cost_of(first, task)
    new, fit = fitted(first.changed(entries), goal, task)
    assert fit.cost == cost_of(new, task)
    assert fit.ratio == pytest.approx(1, abs=2 * TOLERANCE[match])
    assert new.model["ffn"] == fit.ffn


@pytest.mark.parametrize("match", ["parameters", "flops"])
@pytest.mark.parametrize("name", ["block", "llama", "gpt2"])
def test_networks_of_others_get_the_cost_of_the_first_arm(
    name: str, match: str, recipe: Callable[..., Recipe], tmp_path: Path
) -> None:
    networks = {
        "block": f"{{name: block, file: '{write_block(tmp_path)}'}}",
        "llama": f"{{name: config, file: '{write_config(tmp_path, llama(num_key_value_heads=8))}'}}",
        "gpt2": f"{{name: config, file: '{write_config(tmp_path, gpt2())}'}}",
    }
    first = recipe(f"match={match}")
    task = first.load_task()
    goal = cost_of(first, task)
    other = recipe(f"match={match}", f"network={networks[name]}")
    before = cost_of(other, task)
    new, fit = fitted(other, goal, task)
    assert fit.cost == cost_of(new, task)
    assert abs(fit.ratio - 1) <= min(2 * TOLERANCE[match], abs(before.of(match) / goal.of(match) - 1))  # pyright: ignore


def test_what_cannot_be_fitted_stays_and_says_its_cost(recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    first = recipe()
    task = first.load_task()
    goal = cost_of(first, task)
    thin = write_block(tmp_path, HEAD + "def block(width, heads, layer): return nn.Linear(width, width)")
    kept = write_config(tmp_path, gpt2(n_embd=48, n_head=4, n_layer=3)) + ":as-is"
    for other in (
        recipe(f"network={{name: block, file: '{thin}'}}"),
        recipe(f"network={{name: config, file: '{kept}'}}"),
        recipe("scheme=A", "reference=A"),
        recipe("model.activation=swiglu", "match=none"),
    ):
        new, fit = fitted(other, goal, task)
        assert (new, fit.ffn) == (other, None)
        measured = fit.cost.flops / goal.flops if other.match == "none" else fit.cost.body / goal.body
        assert fit.ratio == measured != 1


def test_an_arm_of_equal_cost_keeps_its_width(recipe: Callable[..., Recipe]) -> None:
    first = recipe()
    task = first.load_task()
    new, fit = fitted(first.changed({"model.activation": "relu"}), cost_of(first, task), task)
    assert (fit.ffn, fit.ratio, new.model) == (256, 1.0, {**first.model, "activation": "relu"})


def test_the_nearest_width_is_found_on_any_rising_cost() -> None:
    for cost_at in (lambda w: 1000 + 37 * w, lambda w: w * w + 5, lambda w: 64 * (-(-w // 16))):
        for goal in (1, 448, 1001, 5000, 123456):
            found = nearest_width(cost_at, 100, goal, 0.0)
            assert found is not None
            best = min(abs(cost_at(w) - goal) for w in range(1, 40000))
            assert abs(cost_at(found) - goal) == best
    assert nearest_width(lambda w: 7, 100, 50, 0.0) is None
