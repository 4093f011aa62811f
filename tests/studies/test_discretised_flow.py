"""Is a pretrained model a discretised flow? Every way to run it against the model's own modules, run by hand."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import zoo
from commands import read_back, refusal
from tiny import tiny
from tokenizer_kinds import word_level
from torch import Tensor, nn
from transformers import BertConfig, LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

import splitstep as ss
from splitstep import cli
from splitstep.opening import Opened
from splitstep.studies.converge.discretised_document import discretised_flow_verdict
from splitstep.studies.converge.discretised_flow import Change, DiscretisedFlow, change_of, discretised_flow
from splitstep.studies.converge.ways import strang_of, usual

WORDS = [f"w{i}" for i in range(30)]
TEXTS = ["w3 w8 w1 w22 w9 w9 w4", "w5 w6 w7 w29", "w2 w11 w28 w3 w17", "w13 w2 w2 w19 w20 w21"]
LLAMA = LlamaConfig(
    vocab_size=30, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=20, initializer_range=0.2, bos_token_id=0, eos_token_id=0,
)  # fmt: skip
BERT = BertConfig(
    vocab_size=30, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=20,
)  # fmt: skip
T5 = T5Config(
    vocab_size=30, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_decoder_layers=2, num_heads=2,
    decoder_start_token_id=0, tie_word_embeddings=False,
)  # fmt: skip

SCHEMES = {
    "LlamaForCausalLM": "A F",
    "GPT2LMHeadModel": "A F",
    "GPTJForCausalLM": "A+F",
    "Gemma2ForCausalLM": "A F",
    "BertLMHeadModel": "A N F M",
    "T5ForConditionalGeneration": "A C F",
}
OWN = {"LlamaForCausalLM": (LlamaForCausalLM, LLAMA), "T5ForConditionalGeneration": (T5ForConditionalGeneration, T5)}


def tokenizer() -> Any:
    return transformers.PreTrainedTokenizerFast(tokenizer_object=word_level(WORDS), unk_token="w0")


def made(kind: Any, config: Any) -> Any:
    torch.manual_seed(0)
    return kind(config).eval()


def opened(model: Any) -> Opened:
    return Opened(model, tokenizer(), None, "some/model", "hub")


def studied(model: Any, texts: Sequence[str] = TEXTS, **more: Any) -> DiscretisedFlow:
    few: dict[str, Any] = {"tokens": 64, "schemes": (), "substeps": (1, 2), "factors": (1.0,)}
    return discretised_flow(opened(model), texts, **(few | more))


def ids_of(text: str) -> Tensor:
    return torch.tensor([[int(word[1:]) for word in text.split()]])


@torch.no_grad()
def own_losses(model: Any) -> list[float]:
    """The loss that the model itself gives for each text, alone and without padding."""
    return [float(model(input_ids=ids_of(text), labels=ids_of(text)).loss) for text in TEXTS]


@pytest.mark.parametrize("name", SCHEMES)
def test_a_model_by_its_own_scheme_has_its_own_loss(name: str) -> None:
    model = made(*OWN[name]) if name in OWN else zoo.tiny(name)
    found = studied(model)
    losses = own_losses(model)
    assert found.scheme == SCHEMES[name]
    assert found.loss == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    assert found.own.output < 1e-5
    assert abs(found.own.loss.mean) < 1e-5
    assert found.tokens == sum(len(t.split()) for t in TEXTS) - (0 if name.startswith("T5") else len(TEXTS))


FIELDS = {
    "A": lambda layer, x, positions: layer.self_attn(
        layer.input_layernorm(x), position_embeddings=positions, attention_mask=None
    )[0],
    "F": lambda layer, x, positions: layer.mlp(layer.post_attention_layernorm(x)),
}
HALVES = [("A", 0.5), ("F", 0.5)]
WAYS = {"halved": [*HALVES, *HALVES], "strang": [("F", 0.5), ("A", 1.0), ("F", 0.5)], "longer": HALVES}


def run(way: str, model: Any, x: Tensor, positions: Any) -> Tensor:
    """The layers by hand: the parts of a step with their fractions, or every two layers as one."""
    layers = model.model.layers
    groups = [[*layers[:2]], [layers[2]]] if way == "merged" else [[layer] for layer in layers]
    for group in groups:
        for name, fraction in WAYS.get(way, [("A", 1.0), ("F", 1.0)]):
            x = x + sum(fraction * FIELDS[name](layer, x, positions) for layer in group)
    return x


@torch.no_grad()
def loss_by_hand(model: Any, way: str, text: str) -> float:
    ids = ids_of(text)
    x = model.model.embed_tokens(ids)
    positions = model.model.rotary_emb(x, torch.arange(ids.shape[1])[None])
    logits = model.lm_head(model.model.norm(run(way, model, x, positions)))
    return float(nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:]))


def test_every_way_is_what_a_loop_over_the_modules_gives() -> None:
    model = made(LlamaForCausalLM, LLAMA)
    found = studied(model, factors=(0.5,))
    own = own_losses(model)
    ways = {"halved": found.halved, "strang": found.strang, "merged": found.merged, "longer": found.longer[0]}
    for name, way in ways.items():
        changes = [loss_by_hand(model, name, text) - before for text, before in zip(TEXTS, own, strict=True)]
        assert way.loss.mean == pytest.approx(sum(changes) / len(changes), abs=1e-5), name
        assert max(map(abs, changes)) > 1e-2, "the way changes something"
        wanted = change_of(changes)
        assert way.loss.low == pytest.approx(wanted.low, abs=1e-4)


@pytest.mark.parametrize("scheme", ["lie", "reversible"])
def test_a_model_of_ours_is_studied_in_the_same_way(scheme: str) -> None:
    model = tiny("causal", scheme, vocab_size=30, substeps=2)
    found = studied(model)
    assert found.loss == pytest.approx(sum(own_losses(model)) / len(TEXTS), abs=1e-5)
    assert [one.substeps for one in found.ways if one.scheme == found.scheme] == [2, 4]
    assert (found.strang is None) == (scheme == "reversible")


def test_what_is_not_defined_is_said_and_is_not_zero() -> None:
    post = studied(made(transformers.BertModel, BERT))
    assert (post.halved, post.strang, post.merged, post.errors, post.loss) == (None, None, None, (), None)
    assert {one.what for one in post.undefined} == {"sub-steps", "other schemes", "merged layers", "local errors"}
    assert "not defined, because a part of 'A N F M' projects" in discretised_flow_verdict(post).sentence
    parallel = studied(zoo.tiny("GPTJForCausalLM"))
    assert parallel.strang is not None
    assert all(one.splitting is None and one.subflow > 0 for one in parallel.errors)
    assert "the splitting part of local errors" in {one.what for one in parallel.undefined}
    cells = [cell for table in parallel.document().tables for row in table.rows for cell in row]
    assert cells.count("not defined") == len(parallel.errors) == parallel.layers


def test_layers_that_are_read_as_a_whole_have_substeps_but_no_splitting() -> None:
    found = studied(zoo.tiny("DogeForCausalLM"))
    assert (found.scheme, found.strang) == ("W", None)
    assert "whole layers" in found.notes[0]
    assert found.halved.output > 0
    assert "Strang's splitting" in {one.what for one in found.undefined}
    assert "not defined" in discretised_flow_verdict(found).sentence


def test_a_masked_model_has_a_change_of_output_but_no_loss() -> None:
    found = studied(zoo.tiny("ModernBertForMaskedLM"))
    assert (found.predicts, found.loss, found.halved.loss) == ("own", None, None)
    assert found.halved.output > 0
    assert found.halved.kl is not None
    assert "no loss per token. Its output changes" in discretised_flow_verdict(found).sentence


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ("A F", "F/2 A F/2"), ("F A", "A/2 F A/2"), ("A+F", "F/2 A F/2"), ("A C F", "F/2 C/2 A C/2 F/2"), ("W", None),
        ("F0/2 A F1/2", None), ("A F @heun", None),
    ],
)  # fmt: skip
def test_strang_has_the_last_fields_outside(own: str, wanted: str | None) -> None:
    found = strang_of(ss.scheme(own))
    assert found == (None if wanted is None else ss.scheme(wanted))
    assert usual(ss.scheme(own))[0] == ss.scheme(own)
    assert all(set(one.fields) == set(ss.scheme(own).fields) for one in usual(ss.scheme(own)))


@pytest.fixture(scope="module")
def found() -> DiscretisedFlow:
    return studied(zoo.tiny("GPT2LMHeadModel"))


@pytest.mark.parametrize(("halved", "strang", "kind", "word"), [
    ((0.0, 0.05), (-0.2, 0.09), "settled", "flow: supported."),
    ((0.0, 0.05), (0.05, 0.11), "open", "flow: undecided."),
    ((0.0, 0.05), (0.11, 0.2), "not supported", "flow: not supported."),
    ((0.2, 0.3), (0.05, 0.2), "not supported", "flow: not supported."),
    ((None, None), (None, None), "too few", "flow: undecided."),
])  # fmt: skip
def test_the_intervals_of_two_ways_decide(
    found: DiscretisedFlow, halved: Any, strang: Any, kind: str, word: str
) -> None:
    ends = {"halved": halved, "strang": strang}
    ways: dict[str, Any] = {name: found.own._replace(loss=Change(0.0, *end, 4)) for name, end in ends.items()}
    verdict = discretised_flow_verdict(replace(found, loss=2.0, **ways))
    assert verdict.kind == kind
    assert word in verdict.sentence


def test_a_model_that_guesses_is_undecided(found: DiscretisedFlow) -> None:
    assert found.chance == math.log(zoo.tiny("GPT2LMHeadModel").config.vocab_size)
    assert found.loss > found.chance - 0.5  # its weights are random
    verdict = discretised_flow_verdict(found)
    assert verdict.kind == "open"
    assert "undecided, because its own loss" in verdict.sentence


def test_a_loss_that_is_not_finite_has_no_interval() -> None:
    assert change_of([0.1, math.nan, 0.2]) == Change(math.inf, None, None, 3)
    assert change_of([]) is None


def saved(model: Any, folder: Path) -> str:
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def test_a_result_is_read_back_as_it_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = saved(made(LlamaForCausalLM, LLAMA), tmp_path / "llama"), tmp_path / "out"
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    words = ["converge", folder, "--text", str(tmp_path / "texts.jsonl"), "--out", str(out), "--substeps", "1,2"]
    words += ["--steps", "1,2", "--schemes", "parallel"]
    assert cli.main(words) == 0
    assert "llama as a discretised flow: " in " ".join(capsys.readouterr().out.split())
    ways = [(one.scheme, one.substeps) for one in read_back(out).ways]
    assert ways == [("A F", 1), ("A F", 2), ("A+F", 1), ("A+F", 2)]


def test_wrong_input_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = saved(made(LlamaForCausalLM, LLAMA), tmp_path / "llama")
    bert = saved(made(transformers.BertForMaskedLM, BERT), tmp_path / "bert")
    vision = saved(zoo.tiny("ViTForImageClassification"), tmp_path / "vision")
    files = {"one": "w1\n", "texts": "w1 w2 w3\n", "long": "w1 " * 30}
    for name, content in files.items():
        (tmp_path / f"{name}.txt").write_text(content)
    text = {name: ["--text", str(tmp_path / f"{name}.txt")] for name in files}
    wrong: dict[str, list[str]] = {
        "has one token": [model, *text["one"]],
        "has 20 positions and was given a text of 30 tokens": [model, *text["long"]],
        "takes pixel_values": [vision],
        "there is no equation": [bert, "--schemes", "lie", *text["texts"]],
        "does not run the fields of this network": [model, "--schemes", "macaron", *text["texts"]],
        "--examples is for a run of splitstep": [model, "--examples", "3"],
        "must be at least 1": [model, "--tokens", "0"],
        "is not a model: it has no config.json": [str(tmp_path)],
    }
    capsys.readouterr()  # saving shows progress
    for message, words in wrong.items():
        assert message in refusal(capsys, "converge", *words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
