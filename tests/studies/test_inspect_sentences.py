"""Each sentence is there by its rule alone, with its figure, its interval and its number of texts."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from inspections import findings, inspected, series, whole
from pretrained_folders import bert, llama, tokenizer
from scipy import stats
from tiny import inputs, labels, tiny

from splitstep.studies.inspect.document import lists_table
from splitstep.studies.inspect.measures import (
    bits_per_byte,
    health,
    held,
    held_costs,
    lens_losses,
    predicted_bytes,
    token_means,
    uniform_guess,
)
from splitstep.studies.inspect.result import Coordinate, CutList, Evidence, Health, Held, ModelFindings, Skipped
from splitstep.studies.inspect.sentences import SECTIONS, differences, sentences
from splitstep.studies.inspect.spelling import PLAIN

WELL = Health((), (), 6.0, ())
LOSSES = (2.0, 2.2, 2.4, 2.2)
SPREAD = (-0.02, 0.0, 0.02, 0.0)  # added to figures, so that they have an interval


def interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Student's interval by scipy."""
    low, high = stats.t.interval(level, len(values) - 1, sum(values) / len(values), stats.sem(values))
    return float(low), float(high)


def around(mean: float) -> tuple[float, ...]:
    return tuple(mean + one for one in SPREAD)


def model(**more: Any) -> ModelFindings:
    """A model that has learnt something."""
    return findings(**{"losses": LOSSES, "evidence": Evidence(WELL, **more.pop("evidence", {})), **more})


def text_of(name: str, found: ModelFindings, other: ModelFindings | None = None) -> str:
    return {one.name: one.text for one in sentences(inspected(found, other)).sentences}[name]


def why_not(name: str, found: ModelFindings, other: ModelFindings | None = None) -> str:
    return {one.name: one.why for one in sentences(inspected(found, other)).absent}[name]


def test_every_sentence_is_there_or_it_says_why_and_has_its_part_of_the_page() -> None:
    found = sentences(inspected(model()))
    assert {one.name for one in (*found.sentences, *found.absent)} == set(SECTIONS)
    assert all(one.section == SECTIONS[one.name] for one in found.sentences)
    assert all(one.why for one in found.absent)


def test_health_has_the_loss_with_its_interval_beside_a_uniform_guess() -> None:
    low, high = interval(LOSSES)
    text = text_of("health", model())
    assert f"Its loss is 2.20 nats [{low:.2f}, {high:.2f}] on 4 texts; that of a uniform guess is 6.00." in text
    assert text.startswith("All weights and states are finite; every layer changes the state.")
    assert "[0.00, " in text_of("health", model(losses=(0.0, 1.0, 0.0, 0.1)))  # no loss is below 0
    bits = (1.0, 1.1, 1.2, 1.1)
    low, high = interval(bits)
    spelt = text_of("health", findings(losses=LOSSES, evidence=Evidence(WELL._replace(bits=bits))))
    assert f"or 1.10 [{low:.2f}, {high:.2f}] bits per byte" in spelt


@pytest.mark.parametrize(("gap", "learnt"), [(0.49, False), (0.51, True)])
def test_less_than_half_a_nat_below_a_guess_is_nothing_learnt(gap: float, learnt: bool) -> None:
    skipped = tuple(Skipped(k, around(0.3)) for k in range(4))
    found = sentences(inspected(model(losses=around(6.0 - gap), skipped=skipped)))
    assert ("layers" in {one.name for one in found.sentences}) == learnt
    assert ("It has learned nothing" in found.sentences[0].text) == (not learnt)


def test_without_a_guess_nothing_is_judged_as_not_learnt() -> None:
    free = Evidence(WELL._replace(guess=None))
    found = sentences(inspected(findings(losses=around(6.0), evidence=free, skipped=(Skipped(0, around(0.3)),))))
    assert [one.name for one in found.sentences] == ["health", "layers"]
    assert "nats" not in found.sentences[1].text  # the loss of a task that is no choice has no such unit


def test_the_list_has_its_joint_cost_on_other_texts_and_what_of_it_is_free() -> None:
    changes = around(0.03), around(0.05), around(0.5)
    cut = CutList("greedy", (11, 12, 9), 8, changes, (2,))
    low, high = interval(changes[2])
    text = text_of("layers", model(layers=20, evidence={"cuts": (cut,)}))
    assert text.startswith(
        "The 3 layers that matter least together are 11, 12 and 9: without them the loss changes by +0.50 nats "
        f"[{low:+.2f}, {high:+.2f}] on 4 texts that did not choose them."
    )
    low, high = interval(changes[1])
    assert f"The first 2 are free, below 0.1 nats: +0.050 nats [{low:+.3f}, {high:+.3f}]." in text
    assert "Other layers cost about as much, so the order is not certain." in text


@pytest.mark.parametrize("cost", [0.05, 0.09, 0.2, -0.3])
def test_free_is_an_interval_that_lies_below_a_tenth(cost: float) -> None:
    cut = CutList("greedy", (1,), 8, (around(cost),))
    text, (low, high) = text_of("layers", model(evidence={"cuts": (cut,)})), interval(around(cost))
    assert ("That is free" in text) == (high < 0.1)
    assert ("It is not free: the interval lies above 0.1 nats." in text) == (low > 0.1)
    assert ("It is not shown to be free: the interval contains the limit of 0.1 nats." in text) == (low < 0.1 < high)
    both = model(layers=2, skipped=(Skipped(0, around(cost)), Skipped(1, around(0.9))))
    alone, headline = text_of("layers", both), inspected(both).document().headline
    assert ("1 of 2 layers (0) is free: its interval lies below 0.1 nats" in alone) == (high < 0.1)
    assert ("no layer is free: every interval lies above 0.1 nats" in alone) == (low > 0.1)
    contains = "no layer is shown to be free: 1 interval contains the limit of 0.1 nats, and none lies below it"
    assert (contains in alone) == (low < 0.1 < high)
    assert ("One layer may be free: more texts would tell" in headline) == (low < 0.1 < high)
    assert ("No layer can be left out for free" in headline) == (low > 0.1)


def test_a_list_of_which_nothing_is_shown_to_be_free_names_the_interval_that_decides_nothing() -> None:
    cut = CutList("greedy", (4, 2), 8, (around(0.2), around(0.1)))
    low, high = interval(around(0.1))
    text = text_of("layers", model(evidence={"cuts": (cut,)}))
    assert "None of these is shown to be free: without the first 2 the change is +0.10 nats" in text
    assert f"[{low:+.2f}, {high:+.2f}], which contains the limit of 0.1 nats." in text
    dear = cut._replace(changes=(around(0.2), around(0.5)))
    text = text_of("layers", model(evidence={"cuts": (dear,)}))
    assert "None of these is free: every interval lies above 0.1 nats." in text


def test_where_only_some_layers_were_tried_the_sentence_names_them() -> None:
    skipped = tuple(Skipped(k, around(0.5 + 0.1 * k)) for k in range(3))
    text = text_of("layers", model(layers=9, skipped=skipped))
    assert text.startswith("Left out alone, none of layers 0 to 2 is free")
    assert "; layers 1 and 2 follow." in text
    assert inspected(model(layers=9, skipped=skipped)).document().headline.startswith("None of the layers tried can be")
    cut = CutList("greedy", (1, 2), 8, (around(0.5), around(0.6)))
    text = text_of("layers", model(layers=9, skipped=skipped, evidence={"cuts": (cut,)}))
    assert text.startswith("Of layers 0 to 2, the 2 that matter least together are 1 and 2: ")


@pytest.mark.parametrize(("source", "said"), [
    ("the package's own texts", "More texts can decide it: --cut 1 tries the cheapest on up to 24 others."),
    ("my.txt", "More texts can decide it: --cut 1 --text FILE, with 32 texts in FILE."),
    ("Python", ""),
])  # fmt: skip
def test_what_is_undecided_says_how_more_texts_are_given(source: str, said: str) -> None:
    found = inspected(model(layers=1, skipped=(Skipped(0, around(0.1)),)))
    text = {one.name: one.text for one in sentences(replace(found, source=source)).sentences}["layers"]
    assert ("More texts" in text) == bool(said)
    assert text.endswith(said)
    stopped = {one.name: one.text for one in sentences(replace(found, source=source, unfinished="a")).sentences}
    assert "More texts" not in stopped["layers"]


def test_of_an_interrupted_inspection_the_headline_says_so_first_and_what_is_not_measured_yet() -> None:
    part = replace(inspected(findings(losses=LOSSES)), unfinished="19 of 30 layers left out", seed=16)
    assert part.document().headline.startswith("Interrupted; not finished: 19 of 30 layers left out. The same command")
    why = {one.name: one.why for one in sentences(part).absent}
    assert {why[name] for name in ("health", "layers", "answer", "against")} == {"not measured yet"}
    assert part.document().verdict.kind != "settled"


@pytest.mark.parametrize(("typed", "said"), [
    ("--cut 2", "--cut 2 --save FOLDER"),
    ("--out look", "--out look --cut 3 --save FOLDER"),
    ("--cut 2 --save states", "--cut 2 --save FOLDER"),
    ("--cut 3 --save small", ""),
])  # fmt: skip
def test_a_list_has_the_command_that_saves_the_model_without_it(typed: str, said: str) -> None:
    cut = CutList("greedy", (5, 6, 4), 8, (around(0.5), around(0.6), around(0.7)))
    found = inspected(model(evidence={"cuts": (cut,)}))
    made = replace(found.made, command=f"splitstep inspect mine {typed}")
    table = lists_table(replace(found, made=made))
    assert [row[0] for row in table.rows] == ["5", "5, 6", "5, 6, 4"]
    names = "5 and 6" if "2" in typed else "5, 6 and 4"
    wanted = [f"To save the model without layers {names}: splitstep inspect mine {said}"] if said else []
    assert [*table.notes[1:]] == wanted


def test_a_tie_is_a_layer_that_texts_do_not_tell_from_the_cheapest() -> None:
    costs = {0: (0.2, 0.3, 0.4, 0.3), 1: (0.3, 0.2, 0.4, 0.35), 2: (0.3, 0.4, 0.52, 0.4)}
    text = text_of("layers", model(skipped=tuple(Skipped(k, one) for k, one in costs.items())))
    differences = {k: interval([a - b for a, b in zip(costs[k], costs[0], strict=True)]) for k in (1, 2)}
    assert differences[1][0] < 0 < differences[1][1]
    assert differences[2][0] > 0
    assert "The cheapest is layer 0" in text
    assert text.endswith("1 other layer costs about as much, so the order is not certain.")
    assert "; layers 1 and 2 follow." in text


def test_a_model_without_a_loss_has_shares_of_its_output_and_no_lens() -> None:
    evidence = Evidence(WELL._replace(guess=None), cuts=(CutList("greedy", (1,), 8, (around(0.05),)),))
    found = findings(evidence=evidence, series=(series("lens", "loss", "state", [[1.0] * 5] * 4),))
    assert "the output changes by 5.0% [" in text_of("layers", found)
    assert "the interval lies below 10% of the output" in text_of("layers", found)
    assert "no loss" in why_not("answer", found)


def test_two_texts_have_no_interval_and_decide_nothing() -> None:
    two = model(losses=(2.0, 2.2), skipped=(Skipped(0, (0.01, 0.02)),), series=attention([0.9], 2))
    assert why_not("layers", two) == "an interval needs 3 texts, and there are 2"
    assert "no layer gives it significantly more" in why_not("first token", two)
    assert "[" not in text_of("health", two)


def attention(means: Sequence[float], many: int = 4, uniform: float = 0.1) -> tuple[Any, ...]:
    rows = [[mean + one for mean in means] for one in SPREAD[:many]]
    alike = series("attention", "uniform", "layer", [[uniform] * len(means)] * many)
    return series("attention", "first token", "layer", rows), alike


def test_layers_that_look_at_the_first_token_are_counted_from_the_first() -> None:
    """Not monotone: layer 2 is below again. Layer 4 is above in the mean alone."""
    text = text_of("first token", model(series=attention([0.1, 0.5, 0.2, 0.8, 0.31])))
    low, high = interval(around(0.8))
    assert text == (
        "2 of 5 layers, the first of them layer 1, give the first token significantly more than 0.3 of the "
        f"attention; the most is 0.80 [{low:.2f}, {high:.2f}] on 4 texts in layer 3, "
        "where uniform attention gives 0.10."
    )


def test_attention_that_is_uniform_is_no_finding() -> None:
    """In texts of three tokens each has a third of it anyway."""
    assert "0.50" in why_not("first token", model(series=attention([0.5, 0.4], uniform=0.5)))


def test_outliers_have_their_shares_and_what_holding_them_costs() -> None:
    one = Coordinate(17, 3, around(0.5), around(0.4))
    shy = Coordinate(4, 2, around(0.11), around(0.11))  # its interval is not above a tenth
    ways = Held((17,), "mean", around(0.0)), Held((17,), "zero", around(1.5))
    text = text_of("outliers", model(evidence={"coordinates": (one, shy), "held": ways}))
    share, mean = (interval(around(one)) for one in (0.5, 0.0))
    assert text == (
        "1 of 100 coordinates dominates the state, with more than 10% of its squared norm. Coordinate 17 holds 50% "
        f"[{share[0]:.0%}, {share[1]:.0%}] on 4 texts at state 3 (40% without the first token). "
        "With it held at its mean over other texts the loss changes by "
        f"+0.000 nats [{mean[0]:+.3f}, {mean[1]:+.3f}] on 4 texts."
    )
    large = Coordinate(5, 2, around(0.4), around(0.4))
    ways = (*ways, Held((5,), "mean", around(2.5)))
    text = text_of("outliers", model(evidence={"coordinates": (one, large), "held": ways}))
    assert text.startswith("2 of 100 coordinates dominate the state, each with more than 10% of its squared norm. ")
    assert "Of these, coordinate 5 costs most to hold at its mean over other texts: the loss changes by +2.50" in text
    assert "the most is 0.09" in why_not("outliers", model(series=(series("sizes", "outlier", "state", rows([0.09])),)))


def rows(means: Sequence[float]) -> list[list[float]]:
    return [[mean + one / 10 for mean in means] for one in SPREAD]


def test_the_answer_forms_where_the_lens_stays_below_halfway() -> None:
    """Halfway is 4.1; state 1 is below it, but state 2 is not."""
    lens = [[6.0, 3.0, 5.0, 4.0 + own - 2.2, own] for own in LOSSES]
    text = text_of("answer", model(series=(series("lens", "loss", "state", lens),)))
    half = [(6 + own) / 2 for own in LOSSES]
    away = interval([row[3] - one for row, one in zip(lens, half, strict=True)])
    assert away[0] < 0 < away[1]  # not sure at state 3
    assert text.startswith(
        "From layer 3 on, the loss of the logit lens (the head applied to each state) stays below 4.10 "
    )
    low, high = interval(LOSSES)
    assert text.endswith(f"after layer 3 (state 4 of 4) it is 2.20 nats [{low:.2f}, {high:.2f}] on 4 texts.")


def test_a_lens_that_does_not_end_at_the_models_own_loss_says_nothing() -> None:
    lens = [[6.0, 5.0, 4.0, 2.0, own + 0.1] for own in LOSSES]
    assert "does not end" in why_not("answer", model(series=(series("lens", "loss", "state", lens),)))


def test_a_difference_needs_a_paired_interval_without_zero_that_holds_with_all_others() -> None:
    """Losses differ by as much in each text; attention in the mean alone."""
    ours = model(series=attention([0.5, 0.5]))
    rows = series("attention", "first token", "layer", [[0.1 + 20 * one, 0.5] for one in SPREAD])
    other = findings(losses=(3.0, 3.3, 3.4, 3.1), series=(rows,), random=True)
    differences = [a - b for a, b in zip(LOSSES, other.losses, strict=True)]
    low, high = interval(differences, 1 - 0.05 / 2)  # two figures
    assert text_of("against", ours, other) == (
        "Beside the same network with random weights it differs in the loss by "
        f"-1.00 nats [{low:+.2f}, {high:+.2f}] on 4 texts."
    )


def test_where_answers_form_is_compared_by_shares_of_the_depth() -> None:
    """Halfway is 4.1: one model is below it from the last state of 4 on, the other one from state 2 on."""
    lenses = ([[6.0, 6.0, low, low, own] for own in LOSSES] for low in (6.0, 3.0))
    one, other = (model(series=(series("lens", "loss", "state", rows),)) for rows in lenses)
    found = {name: (unit, mean.mean) for name, unit, mean in differences(one, other)}
    assert found["the share of the depth at which the answer forms"] == (PLAIN, 0.5)


@pytest.fixture(scope="module")
def read() -> Any:
    """A tiny Llama after a pass of two texts of one length."""
    ids = torch.arange(10, 34).view(2, 12) * 7 % 300
    return whole(llama(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def test_a_uniform_guess_is_the_logarithm_of_the_number_of_choices(read: Any) -> None:
    assert uniform_guess(read) == pytest.approx(math.log(300))
    assert uniform_guess(whole(bert(), read.inputs)) is None
    for kind, wanted in (("sequence", 3), ("image", 3), ("masked", 29), ("vectors", None), ("translation", 29)):
        given = {**inputs(kind), "labels": labels(kind)}
        given.pop("decoder_input_ids", None)
        assert uniform_guess(whole(tiny(kind), given)) == (wanted and pytest.approx(math.log(wanted)))


def test_bits_per_byte_are_all_bits_over_the_bytes_that_were_predicted(read: Any) -> None:
    made = tokenizer()
    ids = made("the cat sat on the bridge with a café")["input_ids"]
    whole, first = made.decode(ids).encode(), made.decode(ids[:1]).encode()
    assert predicted_bytes(made, ids) == len(whole) - len(first)
    some = [*[-100] * 5, *ids[5:]]  # what the first five spell is given
    assert predicted_bytes(made, ids, some) == len(whole) - len(made.decode(ids[:5]).encode())
    found = bits_per_byte(read, [20, 40])
    assert found == pytest.approx([loss * 11 / math.log(2) / n for loss, n in zip(read.losses, (20, 40), strict=True)])
    assert bits_per_byte(read, [20, None]) == bits_per_byte(read, []) == ()
    assert health(read, [20, 40]).bits == found


def test_bits_per_byte_of_the_end_of_a_text_are_of_the_tokens_that_have_labels() -> None:
    given = {"input_ids": inputs("causal")["input_ids"]}
    given["labels"] = torch.cat((torch.full((3, 4), -100), given["input_ids"][:, 4:]), 1)
    one = whole(tiny("causal"), given)
    wanted = [loss * 3 / math.log(2) / 5 for loss in one.losses]
    assert bits_per_byte(one, [5, 5, 5]) == pytest.approx(wanted)
    given["labels"][:, 5] = -100  # a gap
    assert bits_per_byte(whole(tiny("causal"), given), [5, 5, 5]) == ()


def test_holding_a_coordinate_is_writing_it_before_every_layer(read: Any) -> None:
    """By hooks on the model itself."""
    net: Any = read.flow.model
    means = token_means(read, (3,)).flip(0)  # of each text, those of the other one
    values = torch.stack([means[:, state] for state in range(5)], 1)
    calls = iter(range(5))

    def write(module: Any, args: Any) -> Any:
        x = args[0].clone()
        x[..., 3] = values[:, next(calls)].to(x)
        return (x, *args[1:])

    hooks = [one.register_forward_pre_hook(write) for one in (*net.model.layers, net.model.norm)]
    with torch.no_grad():
        logits = net(**read.inputs).logits
    for one in hooks:
        one.remove()
    changes = read.judge.losses(logits, read.inputs)
    wanted = [a - b for a, b in zip(changes, read.losses, strict=True)]
    assert held(read, (3,), values) == pytest.approx(wanted, abs=1e-5)
    assert next(iter(held_costs([read], [3]))).changes == pytest.approx(wanted, abs=1e-5)


def test_the_lens_of_a_task_with_labels_is_its_loss_after_each_state() -> None:
    net, given = tiny("sequence"), {**inputs("sequence"), "labels": labels("sequence")}
    one = whole(net, given)
    found = lens_losses(one)
    assert [row[-1] for row in found] == pytest.approx(one.losses)
    assert len(found) == 3
    assert len(found[0]) == 3
