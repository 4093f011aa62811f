"""Answers that a model writes: sampled from its distribution, a function of the seed, the same in any batch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from scipy import stats
from tiny_causal import ROWS, gpt2, llama, ours

from splitstep.distillation.judging.answers import Writing, key_of, write_answers
from splitstep.kernels.gumbel import gumbel

PROMPTS = [row.prompt for row in ROWS]


@pytest.mark.parametrize("make", [llama, gpt2, ours])
def test_answers_depend_on_the_seed_and_not_on_the_batch(make: Any) -> None:
    one = make()
    every = Writing(seeds=(1, 2), max_tokens=12, batch=10)
    found = write_answers(*one, PROMPTS, every)
    torch.manual_seed(99)
    for size in (1, 3):
        assert write_answers(*one, PROMPTS, Writing(seeds=(1, 2), max_tokens=12, batch=size)) == found
    assert found.texts[1] != found.texts[2]
    alone = write_answers(*one, PROMPTS[2:3], Writing(seeds=(2,), max_tokens=12))
    assert alone.texts[2] == [found.texts[2][2]]


def test_without_temperature_the_answers_are_those_of_greedy_generation() -> None:
    one = llama()
    found = write_answers(*one, PROMPTS, Writing(seeds=(0,), max_tokens=8, temperature=0, batch=2))
    for prompt, answer in zip(PROMPTS, found.texts[0], strict=True):
        ids = one.tokenizer(prompt, return_tensors="pt")["input_ids"]
        for _ in range(8):
            ids = torch.cat([ids, one.model(ids).logits[:, -1:].argmax(-1)], 1)
        new = ids[0, len(one.tokenizer(prompt)["input_ids"]) :].tolist()
        end = one.tokenizer.eos_token_id
        new = new[: new.index(end)] if end in new else new
        assert answer == one.tokenizer.decode(new, skip_special_tokens=True).strip()


def test_settings_that_came_with_the_model_change_nothing_and_stay() -> None:
    one, plain = llama(), Writing(seeds=(0,), max_tokens=12)
    found = write_answers(*one, PROMPTS, plain)
    one.model.generation_config.repetition_penalty = 5.0
    one.model.generation_config.max_length = 3
    assert write_answers(*one, PROMPTS, plain) == found
    assert one.model.generation_config.repetition_penalty == 5.0


def test_first_tokens_have_the_distribution_of_the_model() -> None:
    one = llama(scale=0.1)
    seeds = tuple(range(3000))
    ids = one.tokenizer(PROMPTS[0], return_tensors="pt")["input_ids"]
    p = one.model(ids).logits[0, -1].double().softmax(-1).detach()
    keys = torch.tensor([key_of(seed, PROMPTS[0]) for seed in seeds])
    drawn = (p.log() + gumbel(keys, 0, len(p))).argmax(-1)
    likely = p.topk(20).indices.tolist()
    counts = Counter(drawn.tolist())
    seen = [counts[k] for k in likely]
    expected = [float(p[k]) * len(seeds) for k in likely]
    rest = [len(seeds) - sum(seen)], [len(seeds) - sum(expected)]
    assert stats.chisquare([*seen, *rest[0]], [*expected, *rest[1]]).pvalue > 1e-3


def test_the_noise_is_gumbels_and_independent_over_tokens_steps_and_keys() -> None:
    keys = torch.tensor([key_of(seed, "") for seed in range(4)])
    noise = torch.stack([gumbel(keys, step, 5000) for step in range(3)])  # [3, 4, V]
    assert stats.kstest(noise.flatten().numpy(), "gumbel_r").pvalue > 1e-3
    assert torch.corrcoef(noise.flatten(0, 1)).fill_diagonal_(0).abs().max() < 0.06
    assert abs(torch.corrcoef(torch.stack([noise[..., 1:].flatten(), noise[..., :-1].flatten()]))[0, 1]) < 0.02
    assert torch.equal(gumbel(keys[2:], 1, 100), noise[1, 2:, :100])


def test_top_p_draws_only_from_the_likeliest() -> None:
    one = llama()
    sampled = write_answers(*one, PROMPTS, Writing(seeds=(0, 1, 2), max_tokens=6, top_p=1e-6))
    greedy = write_answers(*one, PROMPTS, Writing(seeds=(0,), max_tokens=6, temperature=0))
    assert sampled.texts == {seed: greedy.texts[0] for seed in (0, 1, 2)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "generate needs a temperature of 0 or at least"),
        ({"top_p": 0.0}, "generate needs a top-p above 0"),
        ({"seeds": ()}, "with the seeds"),
        ({"seeds": (1, 1)}, "different seeds"),
        ({"max_tokens": 0}, "answers of 0 tokens"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Writing(**options)


def test_a_prompt_without_room_for_an_answer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"do not fit into the 256 that the model reads"):
        write_answers(*llama(), PROMPTS, Writing(max_tokens=256))
