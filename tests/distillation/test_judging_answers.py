"""Answers that a model writes: those of a loop over single tokens, a function of the seed, the same in any batch."""

from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from scipy import stats
from tiny_causal import ROWS, gpt2, llama, ours

from splitstep.distillation.judging import answers
from splitstep.distillation.judging.answers import Answer, Writing, key_of, write_answers
from splitstep.distillation.judging.exam import share_ended
from splitstep.distillation.judging.reading import Causal
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

    with one.model.register_forward_pre_hook(note, with_kwargs=True):
        yield found


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("writing", [
    Writing(seeds=(1, 2), max_tokens=15, batch=4),
    Writing(seeds=(1,), max_tokens=15, temperature=0.0),
    Writing(seeds=(1, 2), max_tokens=7, temperature=0.7, top_p=0.8, batch=3),
], ids=["sampled", "greedy", "top-p"])  # fmt: skip
def test_answers_in_rounds_are_those_of_a_loop(make: Any, writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ROUND", 3)  # rounds end after 3, 6, 12 and 15 tokens
    one = ending(make)
    expected = {seed: [by_hand(one, prompt, seed, writing) for prompt in PROMPTS] for seed in writing.seeds}
    found = write_answers(*one, PROMPTS, writing)

    def answer(ids: list[int]) -> Answer:
        return Answer(one.tokenizer.decode(ids, skip_special_tokens=True).strip(), len(ids) < writing.max_tokens)

    assert found == {seed: [answer(ids) for ids in own] for seed, own in expected.items()}
    lengths = [len(ids) for own in expected.values() for ids in own]
    assert share_ended(found) == sum(length < writing.max_tokens for length in lengths) / len(lengths)
    rounds = {bisect((3, 6, 12), len(ids)) for own in expected.values() for ids in own}
    assert len(rounds) >= 2, "all answers end in the same round"
    monkeypatch.setattr(answers, "ROUND", writing.max_tokens)
    assert write_answers(*one, PROMPTS, writing) == found  # in one go


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


def test_answers_depend_on_the_seed_and_not_on_the_batch() -> None:
    one = llama()
    found = write_answers(*one, PROMPTS, Writing(seeds=(1, 2), max_tokens=12, batch=10))
    torch.manual_seed(99)
    for size in (1, 3):
        assert write_answers(*one, PROMPTS, Writing(seeds=(1, 2), max_tokens=12, batch=size)) == found
    assert found[1] != found[2]
    alone = write_answers(*one, PROMPTS[2:3], Writing(seeds=(2,), max_tokens=12))
    assert alone[2] == [found[2][2]]


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
    seen = [int((drawn == k).sum()) for k in likely]
    expected = [float(p[k]) * len(seeds) for k in likely]
    counts = [[*one, len(seeds) - sum(one)] for one in (seen, expected)]
    assert stats.chisquare(*counts).pvalue > 1e-3


def test_the_noise_is_gumbels_and_independent_over_tokens_steps_and_keys() -> None:
    keys = torch.tensor([key_of(seed, "") for seed in range(4)])
    noise = torch.stack([gumbel(keys, step, 5000) for step in range(3)])  # [3, 4, V]
    assert stats.kstest(noise.flatten().numpy(), "gumbel_r").pvalue > 1e-3
    assert torch.corrcoef(noise.flatten(0, 1)).fill_diagonal_(0).abs().max() < 0.06
    assert abs(torch.corrcoef(torch.stack([noise[..., 1:].flatten(), noise[..., :-1].flatten()]))[0, 1]) < 0.02
    assert torch.equal(gumbel(keys[2:], 1, 100), noise[1, 2:, :100])


WRONG = {
    "generate needs a temperature of 0 or at least": {"temperature": -1.0},
    "generate needs a top-p above 0": {"top_p": 0.0},
    "with the seeds": {"seeds": ()},
    "different seeds": {"seeds": (1, 1)},
    "answers of 0 tokens": {"max_tokens": 0},
}


def test_wrong_settings_and_a_prompt_without_room_for_an_answer_are_refused() -> None:
    for message, options in WRONG.items():
        with pytest.raises(ValueError, match=message):
            Writing(**options)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"do not fit into the 256 that the model reads"):
        write_answers(*llama(), PROMPTS, Writing(max_tokens=256))
