"""Judging a student: bits per byte, ROUGE-L, agreement, distance, against loops, hand-worked examples and packages."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer  # pyright: ignore[reportMissingTypeStubs]
from tiny_causal import ROWS, gpt2, llama
from tiny_causal import ours as splitstep_causal
from torch.nn.functional import kl_div

from splitstep.distillation.judging.exam import agreement, aligned_row, pair_of, trajectory_distance
from splitstep.distillation.judging.reading import Causal, answer_bits, text_bits, total
from splitstep.distillation.judging.rouge import mean_rouge, rouge_l
from splitstep.distillation.vocabulary import shared_vocabulary
from splitstep.probes.similarity import linear_cka
from splitstep.text.alignment import align
from splitstep.text.instructions import Row
from splitstep.text.token_bytes import token_bytes

TEXT = " ".join(row.answer for row in ROWS)


def loop_bits(one: Causal, before: list[int], ids: list[int], window: int = 10**9) -> float:
    """The bits of tokens, each by a pass of its own over all that is before it."""
    cost, known = 0.0, list(before)
    with torch.no_grad():
        for token in ids:
            logits = one.model(torch.tensor([known[-window:]])).logits[0, -1].double()
            cost -= float(logits.log_softmax(-1)[token]) / math.log(2)
            known.append(token)
    return cost


@pytest.mark.parametrize("make", [llama, gpt2, splitstep_causal])
@pytest.mark.parametrize("batch", [1, 3])
def test_bits_of_answers_are_those_of_a_loop_over_tokens(make: Any, batch: int) -> None:
    one = make()
    for row, found in zip(ROWS, answer_bits(*one, ROWS, batch=batch), strict=True):
        encoded = one.tokenizer(row.prompt + row.answer, return_offsets_mapping=True)
        whole = encoded["input_ids"]
        begin = next(k for k, (_, end) in enumerate(encoded["offset_mapping"]) if end > len(row.prompt))
        assert found.bytes == len(row.answer.encode())
        assert found.bits == pytest.approx(loop_bits(one, whole[:begin], whole[begin:]), rel=1e-5)


def test_bits_of_a_text_in_windows_are_those_of_a_loop() -> None:
    one = llama()
    ids, start = one.tokenizer(TEXT)["input_ids"], one.tokenizer.eos_token_id
    whole = text_bits(*one, TEXT, length=len(ids) + 1)
    assert whole.bytes == len(TEXT.encode())
    assert whole.bits == pytest.approx(loop_bits(one, [start], ids), rel=1e-5)
    moved = text_bits(*one, TEXT, length=8, stride=1)  # then every token follows seven others
    assert moved.bits == pytest.approx(loop_bits(one, [start], ids, window=7), rel=1e-5)


def test_a_uniform_model_costs_the_logarithm_of_its_vocabulary() -> None:
    one = llama()
    torch.nn.init.zeros_(one.model.lm_head.weight)
    found = total(answer_bits(*one, ROWS))
    tokens = sum(len(one.tokenizer(r.prompt + r.answer)["input_ids"]) for r in ROWS)
    prompts = sum(len(one.tokenizer(r.prompt)["input_ids"]) for r in ROWS)
    assert found.bits <= (tokens - prompts + len(ROWS)) * math.log2(one.model.config.vocab_size) + 1e-6
    assert found.per_byte == found.bits / sum(len(row.answer.encode()) for row in ROWS)


def test_judging_leaves_the_mode_of_the_model_and_refuses_rows_that_are_too_long() -> None:
    one, long = llama(), Row("Q", "fox " * 400)
    one.model.train()
    answer_bits(*one, ROWS[:1])
    assert one.model.training
    with pytest.raises(ValueError, match=r"row 1 has \d+ tokens, and the model reads at most 256: leave it out"):
        answer_bits(*one, [ROWS[0], long])


PIECES = [
    "The", "foxes", "running", "don't", "co-operate", "3.14", "Straße", "İstanbul", "naïve", "ΣΟΦΟΣ", "a", "été", "the",
]  # fmt: skip
BLANKS = [" ", "\n", "\t", "\u00a0", "\u2028", "\x1c", ", ", "-", "..."]
TEXTS = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(BLANKS)), max_size=90).map(
    lambda found: "".join(word + blank for word, blank in found)
)


@settings(max_examples=30, deadline=None)
@given(TEXTS | st.text(max_size=60), TEXTS | st.text(max_size=60))
def test_rouge_equals_the_package_to_the_last_digit(a: str, b: str) -> None:
    assert rouge_l(a, b) == 100 * RougeScorer(["rougeL"], use_stemmer=True).score(b, a)["rougeL"].fmeasure


def test_the_mean_of_rouge_is_over_rows() -> None:
    assert mean_rouge(["the cat sat", "dog"], ["the cat sat", "fox"]) == 50


@pytest.mark.parametrize("make", [llama, gpt2, splitstep_causal])
def test_a_model_agrees_with_itself(make: Any) -> None:
    one = make()
    found = agreement(pair_of(one, one, ROWS), batch=2)
    assert (found.top1, found.kl, found.share) == (1.0, 0.0, 1.0)
    assert found.places == sum(sum(aligned_row(one.tokenizer, one.tokenizer, row)[0].scored) for row in ROWS)
    assert all(abs(one.distance) < 1e-9 for one in trajectory_distance(pair_of(one, one, ROWS)))


@pytest.mark.parametrize("make", [partial(llama, seed=1, layers=2, width=16), gpt2], ids=["one tokenizer", "two"])
def test_models_are_compared_where_both_have_read_the_same_bytes(make: Any) -> None:
    teacher, student = llama(), make()
    shared = shared_vocabulary(teacher.tokenizer, student.tokenizer)
    ids = shared.ids if make is gpt2 else torch.arange(len(teacher.tokenizer))[:, None].expand(-1, 2)
    equal, divergence, n = 0, 0.0, 0
    for row in ROWS:
        text, begin = row.prompt + row.answer, len(row.prompt.encode())
        spans = align(*(token_bytes(one.tokenizer, text) for one in (teacher, student)))
        with torch.no_grad():
            sides = [m.model(torch.tensor([m.tokenizer(text)["input_ids"]])).logits[0] for m in (teacher, student)]
        for ours, theirs, (_, end) in zip(spans.teacher, spans.student, spans.bytes, strict=True):
            if begin <= end < len(text.encode()):
                p = sides[0][ours[1] - 1][ids[:, 0]].log_softmax(-1)
                q = sides[1][theirs[1] - 1][ids[:, 1]].log_softmax(-1)
                equal += int(p.argmax() == q.argmax())
                divergence += float(kl_div(q, p, log_target=True, reduction="sum"))
                n += 1
    found = agreement(pair_of(teacher, student, ROWS), batch=2)
    assert (found.top1, found.places) == (equal / n, n)
    assert found.kl == pytest.approx(divergence / n, rel=1e-4)
    assert found.share == (shared.teacher_share if make is gpt2 else 1)
    assert 0 < found.share < 1 or make is not gpt2


def test_distance_is_one_minus_cka_of_mapped_layers() -> None:
    teacher, student = llama(layers=4), llama(seed=1, layers=2, width=16)
    ours, theirs = list[list[torch.Tensor]](), list[list[torch.Tensor]]()
    for row in ROWS:
        read, _ = aligned_row(teacher.tokenizer, student.tokenizer, row)
        for one, into in ((teacher, ours), (student, theirs)):
            out = one.model(torch.tensor([read.ids]), output_hidden_states=True)
            into.append([state[0, read.scored].detach().double() for state in out.hidden_states])
    found = trajectory_distance(pair_of(teacher, student, ROWS), batch=2)
    assert [one[:2] for one in found] == [(1, 2), (2, 4)]
    for layer, matching, distance in found:
        x, y = (torch.cat([row[k] for row in side]) for side, k in ((ours, matching), (theirs, layer)))
        assert distance == pytest.approx(1 - float(linear_cka(x, y, debiased=True)), abs=1e-5)


def test_distance_looks_at_no_more_tokens_than_asked() -> None:
    teacher, student = llama(layers=4), gpt2(layers=6)  # deeper than the teacher, other tokens
    both = pair_of(teacher, student, ROWS)
    few, all_of_them = (trajectory_distance(both, 2, most) for most in (8, 10**6))
    assert [one.layer for one in few] == [2, 3, 4, 5, 6]
    assert few != all_of_them
