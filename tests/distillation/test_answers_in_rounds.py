"""Answers are written in rounds, without those that have ended: they are those of a loop over single tokens."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from tiny_causal import ROWS, gpt2, llama, ours

from splitstep.distillation.judging import answers
from splitstep.distillation.judging.answers import Answer, Writing, key_of, write_answers
from splitstep.distillation.judging.exam import Exam, judge
from splitstep.distillation.judging.tokens import Causal
from splitstep.kernels.gumbel import gumbel

PROMPTS = [row.prompt for row in ROWS]
MODELS = {"llama": llama, "gpt2": partial(gpt2, "byte BPE"), "ours": ours}  # Unigram learns others each time


def ending(make: Any) -> Causal:
    """A model in float64 whose answers end often: at one token of twelve."""
    one = make()
    one.model.double()
    one.model.generation_config.eos_token_id = list(range(5, one.model.config.vocab_size, 12))
    return one


def by_hand(one: Causal, prompt: str, seed: int, writing: Writing) -> list[int]:
    """The tokens of an answer, each by a pass of its own over all before it."""
    ids = one.tokenizer(prompt)["input_ids"]
    ends = [*one.model.generation_config.eos_token_id, one.tokenizer.eos_token_id]
    key, new = torch.tensor([key_of(seed, prompt)]), list[int]()
    while len(new) < writing.max_tokens:
        with torch.no_grad():
            logits = one.model(torch.tensor([ids + new])).logits[0, -1].float().double()
        if writing.temperature:
            logits /= writing.temperature
            likeliest = logits.sort(descending=True).indices
            before = logits[likeliest].softmax(-1).cumsum(-1) - logits[likeliest].softmax(-1)
            logits[likeliest[before >= writing.top_p]] = -torch.inf
            logits += gumbel(key, len(new), len(logits))[0]
        token = int(logits.argmax())
        if token in ends:
            break
        new.append(token)
    return new


@contextmanager
def calls_of(one: Causal) -> Iterator[list[tuple[int, int, int]]]:
    """The rows, the new tokens and all tokens of each pass of `generate` through the model."""
    found = list[tuple[int, int, int]]()

    def note(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if "attention_mask" in named:  # a first pass without it sees what a token takes
            found.append((*named["input_ids"].shape, named["attention_mask"].shape[-1]))

    hook = one.model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield found
    finally:
        hook.remove()


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize(
    "writing",
    [
        Writing(seeds=(1, 2), max_tokens=15, batch=4),
        Writing(seeds=(1,), max_tokens=15, temperature=0.0),
        Writing(seeds=(1, 2), max_tokens=7, temperature=0.7, top_p=0.8, batch=3),
    ],
    ids=["sampled", "greedy", "top-p"],
)
def test_answers_in_rounds_are_those_of_a_loop(make: Any, writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ROUND", 3)  # rounds end after 3, 6, 12 and 15 tokens
    one = ending(make)
    expected = {seed: [by_hand(one, prompt, seed, writing) for prompt in PROMPTS] for seed in writing.seeds}
    found = write_answers(*one, PROMPTS, writing)
    assert found.answers == {
        seed: [
            Answer(one.tokenizer.decode(ids, skip_special_tokens=True).strip(), len(ids) < writing.max_tokens)
            for ids in own
        ]
        for seed, own in expected.items()
    }
    lengths = [len(ids) for own in expected.values() for ids in own]
    assert found.ended == sum(length < writing.max_tokens for length in lengths) / len(lengths)
    rounds = {bisect((3, 6, 12), len(ids)) for own in expected.values() for ids in own}
    assert len(rounds) >= 2, "all answers end in the same round"
    monkeypatch.setattr(answers, "ROUND", writing.max_tokens)
    assert write_answers(*one, PROMPTS, writing) == found  # in one go


def test_the_share_of_answers_that_end_is_the_mean_over_sets() -> None:
    one, sets = ending(llama), {"one": ROWS[:1], "others": ROWS[1:]}
    writing = Writing(seeds=(1, 2, 3), max_tokens=7)
    shares = [write_answers(*one, [row.prompt for row in rows], writing).ended for rows in sets.values()]
    assert shares[0] != shares[1]
    assert judge(one, Exam(sets, writing)).figures.ended == pytest.approx(sum(shares) / 2)


def test_only_answers_that_have_not_ended_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ROUND", 3)
    one, writing = ending(llama), Writing(seeds=(1, 2, 3), max_tokens=14)
    lengths = [len(by_hand(one, prompt, seed, writing)) for seed in writing.seeds for prompt in PROMPTS]
    with calls_of(one) as calls:
        write_answers(*one, PROMPTS, writing)
    begun = [rows for rows, new, _ in calls if new > 1]  # the first pass of a round reads a prompt
    assert begun == [sum(length >= done for length in lengths) for done in (0, 3, 6, 12)]
    assert begun[0] > begun[1] > begun[2] > begun[3] > 0


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_prompt_that_grows_still_fits(make: Any) -> None:
    """The longest prompt and its answer fill all positions, so that padding has no room in the last round."""
    one = make()
    one.model.generation_config.eos_token_id = None
    one.tokenizer.eos_token = None
    longest = max(len(one.tokenizer(prompt)["input_ids"]) for prompt in PROMPTS)
    writing = Writing(seeds=(1,), max_tokens=256 - longest)
    with calls_of(one) as calls:
        write_answers(*one, PROMPTS, writing)
    assert {new for _, new, _ in calls} - {1} == {-(-longest // 32) * 32, -(-(longest + 64) // 32) * 32, longest + 128}
    assert max(width for *_, width in calls) == 255
