"""What cuts cost is what the model without these modules loses, and a saved cut is that model."""

from collections.abc import Callable, Collection
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from inspections import IDS, bart, text_losses, whole
from pretrained_folders import POSITIONS, WORDS, bert, llama, saved
from tiny import inputs, labels, tiny, tokens
from torch import Tensor, nn

import splitstep as ss
from splitstep.flows.flow import Flow, FlowRun
from splitstep.integrate import State
from splitstep.opening import load, open_model
from splitstep.stack import Stack
from splitstep.studies.inspect.cuts import (
    Cuts,
    Passed,
    cut_list,
    greedy_list,
    half_left_out,
    joint_costs,
    left_out,
    passed,
    save_without,
    single_list,
    tied,
    without,
)
from splitstep.studies.inspect.judge import Judge

CUTS = [(0,), (1,), (3,), (1, 2), (0, 3), (0, 1, 2)]


def gpt2(layers: int = 4) -> Any:
    torch.manual_seed(0)
    return hf.GPT2LMHeadModel(hf.GPT2Config(
        vocab_size=WORDS, n_embd=16, n_inner=24, n_layer=layers, n_head=4, n_positions=POSITIONS, bos_token_id=1,
        eos_token_id=1, initializer_range=0.3,
    )).eval()  # fmt: skip


def windows() -> Any:
    """Layers that differ by an entry of the config with one value a layer: every second one looks 3 tokens back."""
    torch.manual_seed(0)
    kinds = ["sliding_attention", "full_attention"] * 2
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(
        vocab_size=WORDS, hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=POSITIONS, initializer_range=0.3, layer_types=kinds,
        sliding_window=3, use_sliding_window=True,
    )).eval()  # fmt: skip


def mixtral() -> Any:
    """Each token chooses two of four experts by its state."""
    torch.manual_seed(0)
    return hf.MixtralForCausalLM(hf.MixtralConfig(
        vocab_size=WORDS, hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=POSITIONS, initializer_range=0.3, num_local_experts=4,
    )).eval()  # fmt: skip


def differences(one: Collection[float], other: Collection[float]) -> list[float]:
    return [a - b for a, b in zip(one, other, strict=True)]


@pytest.mark.parametrize(
    ("make", "home"), [(llama, "model.layers"), (gpt2, "transformer.h"), (mixtral, "model.layers")]
)
@pytest.mark.parametrize("gone", CUTS)
def test_a_cut_costs_what_the_model_without_these_modules_loses(
    make: Callable[[], Any], home: str, gone: tuple[int, ...]
) -> None:
    one, model = whole(make()), make().eval()
    own, layers = text_losses(model), model.get_submodule(home)
    assert one.losses == pytest.approx(own, abs=1e-5)
    for layer in reversed(gone):
        del layers[layer]
    wanted = differences(text_losses(model), own)
    assert left_out(one, gone) == pytest.approx(wanted, abs=1e-5)
    assert left_out(without(one, gone[:1]), gone[1:]) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(("letter", "part"), [("A", "self_attn.o_proj"), ("F", "mlp.down_proj")])
def test_a_half_step_left_out_is_a_module_that_returns_zero(letter: str, part: str) -> None:
    model = llama().eval()
    one, own = whole(model), text_losses(model)
    nn.init.zeros_(model.model.layers[2].get_submodule(part).weight)
    assert half_left_out(one, 2, letter) == pytest.approx(differences(text_losses(model), own), abs=1e-5)


@pytest.mark.parametrize("kind", ["causal", "masked", "sequence", "image", "vectors", "translation"])
def test_our_own_models_lose_by_the_loss_of_their_task(kind: str) -> None:
    """One text at a time by the model itself, with the fields of that letter zero."""
    model, given = tiny(kind, "macaron"), {**inputs(kind), "labels": labels(kind)}
    one = whole(model, given)
    stack = [module for module in model.modules() if isinstance(module, Stack)][-1]
    rows = [{name: x[i : i + 1] for name, x in given.items()} for i in range(3)]
    with torch.no_grad():
        own = [float(model(**row).loss) for row in rows]
        for name in ("F0", "F1"):
            stack.layers[1][name].forward = lambda t, x, context: torch.zeros_like(x)  # pyright: ignore
        after = [float(model(**row).loss) for row in rows]
    assert one.losses == pytest.approx(own, abs=1e-5)
    assert half_left_out(one, 1, "F") == pytest.approx(differences(after, own), abs=1e-5)


@pytest.mark.parametrize("scheme", ["=A =F", "reversible", "D/2@exact A F D/2@exact"])
def test_a_letter_alone_in_its_scheme_is_the_whole_layer(scheme: str) -> None:
    """What is left when all letters of a layer rest one after the other is the state."""
    model = tiny("causal", scheme)
    flow = load(model, {"input_ids": tokens()})
    one = passed(flow, Judge("output"), {"input_ids": tokens()})
    letters = list(dict.fromkeys(name[0] for name in flow.scheme.fields))
    assert all(max(half_left_out(one, 1, letter)) > 0 for letter in letters)
    with torch.no_grad():
        fields: Any = flow.stacks[flow.main].layers[1]
        for name in [*fields]:
            fields[name] = Still(scheme.startswith("="))
        still = passed(flow, Judge("output"), {"input_ids": tokens()})
    torch.testing.assert_close(still.output, model(input_ids=tokens()).logits)
    assert left_out(one, [1]) == pytest.approx(
        [float((a - b).norm() / b.norm()) for a, b in zip(still.output, one.output, strict=True)], rel=1e-5
    )


class Still(nn.Module):
    """A field that does nothing."""

    def __init__(self, replaces: bool) -> None:
        super().__init__()
        self.replaces = replaces

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return x if self.replaces else torch.zeros_like(x)

    def flow(self, t: Any, h: float, x: Tensor, context: Any) -> Tensor:
        return x


def test_an_unknown_letter_names_those_that_are_there() -> None:
    with pytest.raises(ValueError, match="there is no field C in A F: leave out one of A, F"):
        half_left_out(whole(llama()), 0, "C")


def test_a_layer_that_does_nothing_costs_exactly_nothing() -> None:
    model = llama()
    for part in ("self_attn.o_proj", "mlp.down_proj"):
        nn.init.zeros_(model.model.layers[2].get_submodule(part).weight)
    one = whole(model)
    assert left_out(one, [2]) == [0.0] * 3
    assert left_out(one, []) == [0.0] * 3
    assert left_out(one, [1, 2]) == left_out(one, [1])
    assert half_left_out(one, 2, "A") == [0.0] * 3


class Line(Flow):
    """A state that each layer moves by a number: leaving out layers moves the end by the sum of theirs."""

    def __init__(self, moves: list[float]) -> None:
        fields = lambda name, i: Constant(moves[i] if name == "A" else 0.0)  # noqa: E731
        super().__init__(nn.Identity(), {"line": Stack(ss.scheme("A F"), len(moves), fields)})

    def embed(self, inputs: Any) -> State:
        return inputs["x"]

    def context(self, inputs: Any) -> None:
        return None

    def head(self, x: State, context: Any = None) -> Tensor:
        return x

    def run(self, *args: Any) -> FlowRun:
        raise NotImplementedError


class Constant(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return torch.full_like(x, self.by)


MOVES = [8.0, -1.0, 0.25, 1.125, -4.0]
ENDS = [1.0 + sum(MOVES), 2.0 + sum(MOVES)]  # from 1 and 2


def line() -> Passed:
    return passed(Line(MOVES), Judge("output"), {"x": torch.tensor([[[1.0]], [[2.0]]], dtype=torch.float64)})


@pytest.mark.parametrize("gone", [each for n in range(1, 5) for each in combinations(range(5), n)])
def test_joint_costs_in_closed_form(gone: tuple[int, ...]) -> None:
    wanted = [abs(sum(MOVES[layer] for layer in gone)) / end for end in ENDS]
    assert left_out(line(), gone) == pytest.approx(wanted, rel=1e-12)
    *first, last = gone
    assert Cuts([line(), line()])(tuple(first), last) == pytest.approx(wanted * 2, rel=1e-12)


def test_greedy_takes_what_is_best_beside_the_layers_that_are_gone() -> None:
    """Alone, layers 2, 1 and 3 cost least; beside layers 2 and 1, layer 3 makes good most of what they cost."""
    cost = Cuts([line()])
    singles = {layer: cost((), layer) for layer in range(5)}
    by_cost = [one.layer for one in single_list(singles, 3)]
    assert by_cost == [2, 1, 3]
    assert [one.layer for one in greedy_list(cost, singles, 3)] == [2, 1, 3]
    flipped = {layer: (abs(MOVES[layer]),) for layer in range(5)}
    together = lambda gone, layer: (abs(sum(MOVES[one] for one in (*gone, layer))),)  # noqa: E731
    assert [one.layer for one in greedy_list(together, flipped, 4)] == [2, 1, 3, 4]
    found = list(greedy_list(together, flipped, 5, among=3))
    assert sorted(one.layer for one in found) == [0, 1, 2, 3, 4]
    assert found[1].costs == {1: (0.75,), 3: (1.375,), 4: (3.75,), 0: (8.25,)}


def test_greedy_is_brute_force_step_by_step() -> None:
    model = llama(layers=6)
    one = whole(model)
    cost = Cuts([one])
    steps = list(greedy_list(cost, {layer: tuple(left_out(one, [layer])) for layer in range(6)}, 3, among=6))
    gone: list[int] = []
    for step in steps:
        tried = {layer: sum(left_out(one, [*gone, layer])) for layer in range(6) if layer not in gone}
        assert step.layer == min(tried, key=lambda layer: tried[layer])
        gone.append(step.layer)
    joint = list(joint_costs(Cuts([one]), gone))
    assert [list(each) for each in joint] == [pytest.approx(left_out(one, gone[:k]), abs=1e-6) for k in (1, 2, 3)]
    record = cut_list("greedy", steps, 3, joint)
    assert (record.layers, record.chosen_on, len(record.changes)) == (tuple(gone), 3, 3)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((1.0, 2.0, 3.0), (1.1, 1.9, 3.05), True),
        ((1.0, 2.0, 3.0), (0.0, 1.01, 1.99), False),
        ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0), False),  # all equal: no spread, and no doubt
        ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), True),
        ((1.0, 2.0), (0.0, 1.0), True),  # two texts tell nothing
    ],
)
def test_a_tie_is_an_interval_that_contains_nothing(one: Any, other: Any, same: bool) -> None:
    assert tied(one, other) is same
    first = next(single_list({7: one, 4: other}, 1))
    assert first.tie is same
    assert first.layer == (7 if sum(one) < sum(other) else 4)
    assert cut_list("single", [first], 3, []).ties == ((1,) if same else ())


MODELS = {"llama": llama, "gpt2": gpt2, "mixtral": mixtral, "windows": windows, "bert": bert, "bart": bart}


def given_for(model: Any, source: str) -> dict[str, Any]:
    return {"input_ids": IDS, **({"decoder_input_ids": IDS.flip(0)} if source == "bart" else {})}


@pytest.mark.parametrize("source", MODELS)
@pytest.mark.parametrize("gone", [(0,), (1,)])
def test_a_saved_cut_reopens_with_the_output_of_the_cut(source: str, gone: tuple[int, ...], tmp_path: Path) -> None:
    folder = saved(tmp_path / "whole", MODELS[source]())
    opened = open_model(folder)
    one = whole(opened.model, given_for(opened.model, source))
    save_without(opened, one, gone, tmp_path / "cut")
    again = open_model(tmp_path / "cut")
    same = whole(again.model, dict(one.inputs))
    assert again.tokenizer("the cat")["input_ids"] == opened.tokenizer("the cat")["input_ids"]
    assert same.layers == one.layers - len(gone)
    assert relative_error(same.output, without(one, gone)) < 1e-5
    if one.losses is not None:
        assert differences(same.losses or [], one.losses) == pytest.approx(left_out(one, gone), abs=1e-5)


def relative_error(output: Tensor, cut: Passed) -> float:
    with torch.no_grad():
        wanted = cut.judge.output(cut.flow, cut.starts[-1], cut.context, cut.inputs)
    return float((output - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("kind", ["causal", "masked", "translation"])
def test_a_saved_cut_of_our_own_reopens_with_its_loss(kind: str, tmp_path: Path) -> None:
    """Its layers have different widths, and the translation model has two stacks."""
    more = {"decoder_layers": 3} if kind == "translation" else {"ffn": [24, 16, 32, 8, 12, 20]}
    model = tiny(kind, "macaron", layers=3, **more)
    model.save_pretrained(tmp_path / "whole")
    opened = open_model(tmp_path / "whole")
    given = {**inputs(kind), "labels": labels(kind)}
    one = whole(opened.model, given)
    save_without(opened, one, [1], tmp_path / "cut")
    again = whole(open_model(tmp_path / "cut").model, given)
    assert again.layers == 2
    assert differences(again.losses or [], one.losses or []) == pytest.approx(left_out(one, [1]), abs=1e-5)


def test_a_cut_that_no_config_describes_is_refused_in_one_line(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = hf.T5Config(
        vocab_size=WORDS, d_model=16, d_kv=4, d_ff=24, num_layers=3, num_heads=4, decoder_start_token_id=0
    )
    opened = open_model(saved(tmp_path / "t5", hf.T5ForConditionalGeneration(config)))
    one = whole(opened.model, {"input_ids": IDS, "decoder_input_ids": IDS})
    with pytest.raises(ValueError, match="that has layers 1 and 2 of 3 alone, so leave out other ones"):
        save_without(opened, one, [0], tmp_path / "cut")
    with pytest.raises(ValueError, match="1 of its 3 layers: leave at least two"):
        save_without(opened, one, [1, 2], tmp_path / "cut")
    assert not (tmp_path / "cut").exists()
    (tmp_path / "cut").mkdir()
    with pytest.raises(ValueError, match="it is there already"):
        save_without(opened, one, [1], tmp_path / "cut")


def test_a_saved_model_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    """Attention of layer l is divided by l + 1, so layers differ by their number."""
    model = gpt2()
    model.config.scale_attn_by_inverse_layer_idx = True
    opened = open_model(saved(tmp_path / "scaled", hf.GPT2LMHeadModel(model.config)))
    one = whole(opened.model)
    with pytest.raises(ValueError, match="without layers 1 does not give what the cut gave"):
        save_without(opened, one, [1], tmp_path / "cut")
    save_without(opened, one, [3], tmp_path / "cut")  # the last one: no other layer moves
