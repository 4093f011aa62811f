"""What is planted in small models is measured as worked out by hand, and said; without the plant it is not.

In these models a token is a coordinate, 1 for itself. A layer answers for some tokens: it writes the next one of a
circle into another coordinate, which the head reads. So a token's logits are SHARP at its answer, or 0 everywhere.
"""

import html
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from inspections import findings, inspected, series, shares_of
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor
from transformers import PreTrainedTokenizerFast

import splitstep as ss
from splitstep.models import CausalConfig, SplitstepForCausalLM
from splitstep.opening import load
from splitstep.report.drawing import document_to_page
from splitstep.studies.inspect.compare_models import divergence, swapped
from splitstep.studies.inspect.cuts import Cuts, Passed, cut_list, greedy_list, joint_costs, left_out, passed
from splitstep.studies.inspect.judge import Judge
from splitstep.studies.inspect.measures import (
    coordinates,
    health,
    held_costs,
    lens_losses,
    whole_health,
)
from splitstep.studies.inspect.result import Evidence, ModelFindings, Skipped
from splitstep.studies.inspect.sentences import differences, sentences
from splitstep.studies.inspect.sources import TextChoice
from splitstep.studies.inspect.study import Wish, inspection

V, T, HEADS, WIDTH = 24, 12, 2, 52
EXTRA = 2 * V  # a coordinate that belongs to no token
SHARP = 5.0  # the logit of an answer
KNOWN = math.log(math.exp(SHARP) + V - 1)  # of a token that has an answer: the log of the sum of all exponentials
Answers = Mapping[int, Sequence[int]]  # layer -> the tokens for which it answers
EACH = 1e-6


def spread_over(layers: Sequence[int]) -> dict[int, list[int]]:
    """All tokens, in turn."""
    return {layer: [k for k in range(V) if k % len(layers) == i] for i, layer in enumerate(layers)}


@torch.no_grad()
def circle(layers: int, answers: Answers, step: int = 1, sharp: float = SHARP) -> Any:
    """A model in which each token's answer is the token `step` further, if a layer answers for it."""
    config = CausalConfig(
        scheme="A F", layers=layers, width=WIDTH, heads=HEADS, ffn=V, vocab_size=V, norm="none", positions="none",
        activation="relu", tie_word_embeddings=False,
    )  # fmt: skip
    model: Any = SplitstepForCausalLM(config).double().eval()
    for weight in model.parameters():
        weight.zero_()
    for k in range(V):
        model.embedding.tokens.weight[k, k] = 1
        model.head.weight[k, V + k] = sharp
    for layer, tokens in answers.items():
        teach(model, layer, tokens, step)
    return model


def field(model: Any, layer: int, letter: str) -> Any:
    return model.body.stack.layers[layer][letter]


@torch.no_grad()
def teach(model: Any, layer: int, tokens: Sequence[int], step: int) -> None:
    for k in tokens:
        field(model, layer, "F").up.weight[k, k] = 1
        field(model, layer, "F").down.weight[:, k] = 0
        field(model, layer, "F").down.weight[V + (k + step) % V, k] = 1


def texts(seed: int = 0, many: int = 4) -> Tensor:
    """Texts that begin with token 0 and follow the circle, but for a few jumps, which differ from text to text."""
    draw, rows = np.random.default_rng(seed), []
    for _ in range(many):
        row = [0]
        while len(row) < T:
            row.append((row[-1] + (1 if draw.random() < 0.8 else 3)) % V)
        rows.append(row)
    return torch.tensor(rows)


def seen(model: Any, ids: Tensor | None = None) -> Passed:
    """The model after a pass of the texts, judged by the loss of the next token."""
    flow, given = load(model), {"input_ids": texts() if ids is None else ids}
    given |= {"attention_mask": torch.ones_like(given["input_ids"]), "labels": given["input_ids"]}
    return passed(flow, Judge.of(flow, given), given)


def loss_by_hand(ids: Tensor, known: Sequence[int], step: int = 1) -> list[float]:
    """The loss of each text, where the answers of some tokens are known."""

    def one(token: int, after: int) -> float:
        if token not in known:
            return math.log(V)
        return KNOWN - SHARP * (after == (token + step) % V)

    return [math.fsum(one(a, b) for a, b in itertools.pairwise(row)) / (T - 1) for row in ids.tolist()]


def tokens_of(answers: Answers, gone: Sequence[int] = ()) -> list[int]:
    return [k for layer, tokens in answers.items() if layer not in gone for k in tokens]


def found_in(one: Passed, **more: Any) -> ModelFindings:
    """The record of a model, with its health."""
    evidence = Evidence(health=whole_health(one.flow.model, [health(one)]))._replace(**more.pop("evidence", {}))
    return findings(one.layers, WIDTH, losses=tuple(one.losses or ()), evidence=evidence, **more)


def said(model: ModelFindings, other: ModelFindings | None = None) -> dict[str, str]:
    return {one.name: one.text for one in sentences(inspected(model, other)).sentences}


@pytest.mark.parametrize("planted", [True, False])
def test_an_identity_layer_costs_exactly_nothing(planted: bool) -> None:
    answers = spread_over([0, 1, 2, 4] if planted else [0, 1, 2, 3, 4])
    one, ids = seen(circle(5, answers)), texts()
    whole = loss_by_hand(ids, range(V))
    assert one.losses == pytest.approx(whole, abs=EACH)
    skipped = [Skipped(layer, tuple(left_out(one, [layer]))) for layer in range(5)]
    for layer in answers:
        rest = loss_by_hand(ids, tokens_of(answers, [layer]))
        assert skipped[layer].changes == pytest.approx([a - b for a, b in zip(rest, whole, strict=True)], abs=EACH)
    model = found_in(one, skipped=tuple(skipped))
    text = said(model)
    assert (model.evidence.health.idle == (3,)) == planted
    assert ("layer 3 does nothing" in text["health"]) == planted
    assert ("1 of 5 layers (3) is free" in text["layers"]) == planted
    assert ("no layer is shown to be free" in text["layers"]) == (not planted)
    if planted:
        assert skipped[3].changes == (0.0,) * 4
        assert "layer 3: the loss changes by exactly 0 nats on 4 texts" in text["layers"]


def test_layers_that_do_nothing_go_together_on_texts_that_did_not_choose_them() -> None:
    answers = {**spread_over([0, 2, 4]), 3: [1]}  # token 1 is answered twice over, so that layer 3 alone ...
    model, others = circle(6, answers), texts(seed=1, many=5)
    with torch.no_grad():
        field(model, 3, "F").down.weight.mul_(0.01)  # ... hardly matters
    chooses, judges = Cuts([seen(model)]), Cuts([seen(model, others)])
    singles = {layer: chooses((), layer) for layer in range(6)}
    steps = list(greedy_list(chooses, singles, 4))
    kept = cut_list("greedy", steps, 4, joint_costs(judges, [one.layer for one in steps]))
    assert set(kept.layers[:3]) == {1, 3, 5}
    last = kept.layers[3]
    known, whole = tokens_of(spread_over([0, 2, 4]), [last]), loss_by_hand(others, range(V))
    wanted = [a - b for a, b in zip(loss_by_hand(others, known), whole, strict=True)]
    doubled = math.log(math.exp(1.01 * SHARP) + V - 1)  # token 1 with both answers; layer 3 is gone from the third on
    for i, row in enumerate(others.tolist()):
        for a, b in itertools.pairwise(row):
            if a == 1:
                wanted[i] -= ((doubled - 1.01 * SHARP * (b == 2)) - (KNOWN - SHARP * (b == 2))) / (T - 1)
    assert kept.changes[3] == pytest.approx(wanted, abs=EACH)
    text = said(found_in(seen(model), evidence={"cuts": (kept,)}))["layers"]
    assert f"The 4 layers that matter least together are {', '.join(map(str, kept.layers[:3]))} and {last}" in text
    assert "on 5 texts that did not choose them" in text
    assert "The first 3 are free, below 0.1 nats" in text


def attention(model: Any) -> dict[str, Any]:
    """The attention on the first token and uniform attention, a row a text."""
    flow = load(model)
    rows = [ss.observe(flow, {"input_ids": row[None]}, ["attention"])["attention"][flow.main] for row in texts()]
    return {name: [one[name] for one in rows] for name in ("first token", "uniform")}


@pytest.mark.parametrize("score", [0.0, 1.0, 60.0])
def test_a_head_that_looks_only_at_the_first_token(score: float) -> None:
    """One of two heads of layer 2; the other heads look at all tokens alike."""
    model = circle(4, spread_over(range(4)))
    size = WIDTH // HEADS
    with torch.no_grad():
        looks = field(model, 2, "A").qkv
        looks.bias[0] = 1.0  # every query of head 0
        looks.weight[WIDTH, 0] = score * math.sqrt(size)  # its key of token 0
    uniform = sum(1 / i for i in range(2, T + 1)) / (T - 1)
    head = sum(math.exp(score) / (math.exp(score) + i - 1) for i in range(2, T + 1)) / (T - 1)
    found = attention(model)
    assert found["uniform"] == [pytest.approx([uniform] * 4, abs=EACH)] * 4
    assert found["first token"] == [pytest.approx([uniform, uniform, (head + uniform) / 2, uniform], abs=EACH)] * 4
    text = said(found_in(seen(model), series=tuple(series("attention", k, "layer", v) for k, v in found.items())))
    if score == 60.0:
        assert text["first token"].startswith("Layer 2 gives the first token significantly more than 0.3")
        assert f"exactly {(1 + uniform) / 2:.6g} on 4 texts in layer 2" in text["first token"]
    else:
        assert "first token" not in text


@pytest.mark.parametrize("size", [1.0, 0.1])
def test_a_coordinate_of_set_share(size: float) -> None:
    """Layer 0 adds it to all tokens. The first token is twice as long as others, and the head reads the coordinate for
    token 5."""
    model = circle(3, spread_over([1, 2]))
    with torch.no_grad():
        field(model, 0, "F").down.bias[EXTRA] = size
        model.embedding.tokens.weight[0, 0] = 2.0
        model.head.weight[5, EXTRA] = 1.0
    one, ids, planted = seen(model), texts(), size == 1.0
    found = coordinates(shares_of(one))
    assert [(c.coordinate, c.state) for c in found] == ([(EXTRA, 1)] if planted else [])
    share, first = size**2 / (1 + size**2), size**2 / (4 + size**2)
    for c in found:
        assert c.without_first == pytest.approx([share] * 4, abs=EACH)
        assert c.shares == pytest.approx([(first + (T - 1) * share) / T] * 4, abs=EACH)
    held = list(held_costs([one], [EXTRA]))
    at_zero = [b - a for a, b in zip(extra_by_hand(ids, size), extra_by_hand(ids, 0.0), strict=True)]
    assert one.losses == pytest.approx(extra_by_hand(ids, size), abs=EACH)
    assert [(h.coordinates, h.at) for h in held] == [((EXTRA,), "mean"), ((EXTRA,), "zero")]
    assert held[0].changes == pytest.approx([0.0] * 4, abs=1e-12)  # it is the same everywhere
    assert held[1].changes == pytest.approx(at_zero, abs=EACH)
    text = said(found_in(one, evidence={"coordinates": found, "held": tuple(held)}))
    assert ("outliers" in text) == planted
    if planted:
        wanted = f"Coordinate {EXTRA} holds exactly 47.5% on 4 texts at state 1 (50% without the first token)."
        assert wanted in text["outliers"]  # (0.2 + 11 / 2) / 12


def extra_by_hand(ids: Tensor, value: float) -> list[float]:
    """The loss of each text if the coordinate has this value: it adds to the logit of token 5, and token 0 has twice
    its logit."""
    found = []
    for row in ids.tolist():
        total = 0.0
        for a, b in itertools.pairwise(row):
            logits = [
                SHARP * (2 if a == 0 else 1) * (k == a + 1 - V * (a == V - 1)) + value * (k == 5) for k in range(V)
            ]
            total += math.log(math.fsum(map(math.exp, logits))) - logits[b]
        found.append(total / (T - 1))
    return found


@pytest.mark.parametrize("last", [5, 7])
def test_the_answer_forms_where_the_last_layer_is_that_does_anything(last: int) -> None:
    """All layers after 5 are identities, or none is; most tokens are answered in the last one that is not."""
    early = {layer: [layer] for layer in range(last)}
    answers = {**early, last: [k for k in range(V) if k >= last]}
    one, ids = seen(circle(8, answers)), texts()
    losses = lens_losses(one)
    for state in range(9):
        known = [k for layer, tokens in answers.items() if layer < state for k in tokens]
        assert [row[state] for row in losses] == pytest.approx(loss_by_hand(ids, known), abs=EACH)
    model = found_in(one, series=(series("lens", "loss", "state", losses),))
    text, half = said(model), (math.log(V) + np.mean(loss_by_hand(ids, range(V)))) / 2
    assert text["answer"].startswith(f"From layer {last} on")
    assert f"after layer {last} (state {last + 1} of 8) it is" in text["answer"]
    assert f"stays below {half:.2f} nats" in text["answer"]
    assert f" it is {np.mean(one.losses):.2f} nats" in text["answer"]
    assert ("layers 6 and 7 do nothing" in text["health"]) == (last == 5)


@pytest.mark.parametrize("layer", [3, None])
def test_two_models_that_differ_in_one_layer(layer: int | None) -> None:
    """In the other one this layer answers with the token after the next one."""
    answers = spread_over(range(5))
    one, model, ids = seen(circle(5, answers)), circle(5, answers), texts()
    if layer is not None:
        with torch.no_grad():
            teach(model, layer, answers[layer], 2)
    other = seen(model)
    found = tuple(Skipped(k, tuple(swapped(one, other, k))) for k in range(5))
    apart, why = divergence(one, other)
    own = loss_by_hand(ids, range(V))
    for k, changes in found:
        moved = other.losses or [] if k == layer else own
        assert changes == pytest.approx([a - b for a, b in zip(moved, own, strict=True)], abs=EACH)
    p = math.exp(SHARP - KNOWN), math.exp(-KNOWN)  # of the answer, and of any other token
    kl = 0.0 if layer is None else (p[0] - p[1]) * math.log(p[0] / p[1])
    share = [sum(k in answers.get(layer or -1, ()) for k in row) / T for row in ids.tolist()]
    assert (apart, why) == (pytest.approx([x * kl for x in share], abs=EACH), "")
    record = found_in(one, evidence={"swapped": found, "divergence": tuple(apart)})
    text = said(record, found_in(other)).get("against", "")
    assert ("layer 3 of 5: with the other's layer 3 the loss changes by" in text) == (layer == 3)
    assert (text == "") == (layer is None)
    if layer == 3:
        assert f"its predictions, by {np.mean(apart):.2f} nats" in text


def test_a_model_that_guesses_has_learnt_nothing_and_no_more_is_said() -> None:
    one = seen(circle(3, spread_over([0, 1, 2]), sharp=0.0))
    assert one.losses == pytest.approx([math.log(V)] * 4, abs=EACH)
    skipped = tuple(Skipped(layer, tuple(left_out(one, [layer]))) for layer in range(3))
    found = sentences(inspected(found_in(one, skipped=skipped)))
    assert [one.name for one in found.sentences] == ["health"]
    assert "It has learned nothing" in found.sentences[0].text
    assert {one.why for one in found.absent} == {"the model has learned nothing"}


def test_numbers_that_are_not_finite_are_named_and_no_more_is_said() -> None:
    model = circle(3, spread_over([0, 1, 2]))
    with torch.no_grad():
        field(model, 1, "F").down.weight[0, 0] = math.nan
    found = sentences(inspected(found_in(seen(model))))
    assert [one.name for one in found.sentences] == ["health"]
    assert "Not finite: body.stack.layers.1.F.down.weight, state 2 and state 3" in found.sentences[0].text


CHOICE = TextChoice(given=tuple(" ".join(f"w{k}" for k in row) for row in texts().tolist()))


def stored(model: Any, folder: Path) -> Path:
    """The model in float32 with a tokenizer of its words."""
    model.float().save_pretrained(folder)
    words = Tokenizer(WordLevel({f"w{k}": k for k in range(V)}, unk_token="w0"))
    words.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    return folder


def test_the_verb_says_all_of_it(tmp_path: Path) -> None:
    """Through files, texts, batches and the store, in float32: an idle layer, a head on the first token, a coordinate,
    and where the answer forms."""
    answers = {0: [0, 1, 2], 4: [k for k in range(V) if k > 2]}
    model = circle(6, answers)
    with torch.no_grad():
        field(model, 1, "F").down.bias[EXTRA] = 1.0
        field(model, 2, "A").qkv.bias[0] = 1.0
        field(model, 2, "A").qkv.weight[WIDTH, 0] = 60 * math.sqrt(WIDTH // HEADS)
    found = inspection(str(stored(model, tmp_path)), Wish(choice=CHOICE))
    assert found.model.losses == pytest.approx(loss_by_hand(texts(), range(V)), abs=1e-5)
    assert [one.changes for one in found.model.skipped if one.layer in (2, 3, 5)] == [(0.0,) * 4] * 3
    text = {one.name: one.text for one in sentences(found).sentences}
    assert "layers 2, 3 and 5 do nothing to the state" in text["health"]
    assert "(1, 2, 3 and 5) are free" in text["layers"]
    assert "Layer 2 gives the first token significantly more than 0.3" in text["first token"]
    assert f"1 of {WIDTH} coordinates dominates the state, " in text["outliers"]
    assert f"Coordinate {EXTRA} holds " in text["outliers"]
    assert text["answer"].startswith("From layer 4 on, the loss of the logit lens")
    assert text["against"].startswith("Beside the same network with random weights it differs in the loss by -")


@pytest.mark.parametrize("layer", [None, 2])
def test_against_itself_a_model_has_no_difference(layer: int | None, tmp_path: Path) -> None:
    """By the whole inspection of a model that has learnt something; and with one layer taught otherwise it has."""
    answers = spread_over(range(4))
    model, other = circle(4, answers), circle(4, answers)
    if layer is not None:
        teach(other, layer, answers[layer], 2)
    paths = [stored(one, tmp_path / name) for one, name in ((model, "one"), (other, "other"))]
    found = inspection(str(paths[0]), Wish(choice=CHOICE, against=str(paths[1])))
    same, shared = layer is None, sum(k in answers[2] for k in texts()[0].tolist()) / T  # of the tokens
    text, why = sentences(found), {one.name: one.why for one in sentences(found).absent}
    assert ("against" in {one.name for one in text.sentences}) != same
    assert {one.layer for one in found.model.evidence.swapped if any(one.changes)} == (set() if same else {2})
    assert any(found.model.evidence.divergence) != same
    rows = {(one.probe, one.name): one.figures for one in found.model.series if one.probe == "beside"}
    assert rows["beside", "relative distance"][0][2] == (
        0.0 if same else pytest.approx(math.sqrt(2) * shared, abs=EACH)
    )
    if same:
        assert why["against"].startswith("no figure differs of those that both have: the loss, attention")
        assert [one.mean for _, _, one in differences(found.model, found.other)] == [0.0] * 5
        assert rows["beside", "cosine distance"] == ((0.0,) * 4,) * 4


def test_the_page_links_each_sentence_to_its_evidence_and_says_which_are_not_there(tmp_path: Path) -> None:
    found = inspection(str(stored(circle(4, spread_over(range(4))), tmp_path)), Wish(choice=CHOICE, against="none"))
    said, page = sentences(found), document_to_page(found.document())
    assert {one.name for one in said.sentences} >= {"health", "layers"}
    assert {one.name for one in said.absent} >= {"first token", "against"}
    targets = set(re.findall(r' id="([^"]*)"', page))
    links = re.findall(r'<a href="#([^"]*)">([^<]*)</a>', page)
    assert {name for _, name in links} >= {html.escape(one.section) for one in said.sentences}
    assert {target for target, _ in links} <= targets
    words = " ".join(html.unescape(re.sub("<[^>]*>", "", page)).split())
    for one in said.absent:
        assert one.why in words[words.index("Not said") :]
