"""An inspection says what the probes say, text by text, beside a null model; layers are really left out."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pretrained_folders import bert, gptj, llama, saved
from safetensors import safe_open

import splitstep as ss
from splitstep.approximation import approximate
from splitstep.cli import main
from splitstep.experiments.study import STUDIES
from splitstep.opening import load, open_model
from splitstep.opening.texts import default_texts
from splitstep.report.drawing import document_to_page
from splitstep.studies.inspect import Inspection, inspection
from splitstep.studies.inspect.document import layers_table
from splitstep.studies.inspect.gradient import depth_gradient
from splitstep.studies.inspect.own_probes import directions, principal_plane
from splitstep.studies.inspect.plan import Plan
from splitstep.studies.inspect.result import ModelFindings
from splitstep.studies.inspect.sources import TextChoice
from splitstep.studies.inspect.study import Wish

SHORT = TextChoice(texts=3, tokens=20)
CHEAP = ("trajectory", "drift", "clustering", "rank", "cka_layers", "jacobian", "products", "attention", "rollout")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "llama", llama())


@pytest.fixture(scope="module")
def found(folder: Path) -> Inspection:
    return inspection(str(folder), Wish(SHORT, Plan(CHEAP, 3)))


@pytest.fixture(scope="module")
def texts(folder: Path) -> list[dict[str, Any]]:
    tokenizer = open_model(folder).tokenizer
    return [dict(tokenizer(one, return_tensors="pt", truncation=True, max_length=20)) for one in default_texts()[:3]]


def series(looked: ModelFindings, probe: str, name: str) -> tuple[tuple[float, ...], ...]:
    one = looked.find(probe, name)
    return one.figures


def test_every_figure_is_that_of_its_text_alone(folder: Path, found: Inspection, texts: list[dict[str, Any]]) -> None:
    """By the probes themselves; norms and losses by Hugging Face."""
    flow, model = load(folder), open_model(folder).model
    for i, inputs in enumerate(texts):
        oracle = ss.observe(flow, inputs, ["drift", "rank"])
        for probe, name in (("drift", "previous"), ("rank", "effective centred")):
            wanted = oracle[probe][flow.main][name]
            assert series(found.model, probe, name)[i] == pytest.approx(wanted, rel=1e-4)
        with torch.no_grad():
            output = model(**inputs, labels=inputs["input_ids"], output_hidden_states=True)
        states = output.hidden_states[:-1]  # the last one is after the norm
        wanted = [float(x[0].norm(dim=-1).mean()) for x in states]
        assert series(found.model, "trajectory", "norm")[i][:-1] == pytest.approx(wanted, rel=1e-4)
        assert found.model.losses[i] == pytest.approx(float(output.loss), abs=1e-4)


def test_a_skipped_layer_is_one_that_the_model_does_not_have(
    folder: Path, found: Inspection, texts: list[dict[str, Any]]
) -> None:
    for one in found.model.skipped:
        model: Any = open_model(folder).model
        del model.model.layers[one.layer]
        for i, inputs in enumerate(texts):
            with torch.no_grad():
                loss = float(model(**inputs, labels=inputs["input_ids"], use_cache=False).loss)
            assert one.changes[i] == pytest.approx(loss - found.model.losses[i], abs=1e-4)
    assert [one.layer for one in found.model.skipped] == [0, 1, 2, 3]


def test_the_null_model_has_the_architectures_own_initialisation(found: Inspection) -> None:
    null = found.null
    assert (null.random, null.layers, null.scheme, null.skipped) == (True, 4, "A F", ())
    assert null.parameters == found.model.parameters
    assert series(null, "trajectory", "norm") != series(found.model, "trajectory", "norm")
    assert {(one.probe, one.name) for one in null.series} == {(one.probe, one.name) for one in found.model.series}


def test_the_document_is_read_back_and_drawn_again(found: Inspection, tmp_path: Path) -> None:
    document = json.loads(json.dumps(found.json(), allow_nan=False))
    back = STUDIES["inspect"].read(document, "there")
    assert json.dumps(back.json()) == json.dumps(found.json())
    assert document_to_page(back.document()) == document_to_page(found.document())


def test_another_model_may_have_another_depth(folder: Path, tmp_path: Path) -> None:
    other = saved(tmp_path / "deeper", llama(layers=6, seed=1))
    result = inspection(str(folder), Wish(SHORT, Plan(("trajectory", "drift")), against=str(other)))
    assert (result.other.layers, result.null) == (6, None)
    norm = result.other.find("trajectory", "norm")
    assert norm.t == pytest.approx([i / 6 for i in range(7)])
    assert "no null model" in depth_gradient(result).sentence
    assert "share of the depth" in document_to_page(result.document())


def test_chosen_layers_change_neither_figures_nor_the_verdict(folder: Path, found: Inspection) -> None:
    some = inspection(str(folder), Wish(SHORT, Plan(CHEAP, 3, layers=(1, 3))))
    assert depth_gradient(some) == depth_gradient(found)
    assert some.model.series == found.model.series
    assert some.model.matrices == found.model.matrices
    assert some.model.evidence.coordinates == found.model.evidence.coordinates
    assert [row[0] for row in layers_table(some).rows] == ["1", "3"]
    assert [one.layer for one in some.model.spectra] == [one.layer for one in some.model.skipped] == [1, 3]
    assert some.model.missing == ()


def test_saved_states_are_those_of_hugging_face(folder: Path, tmp_path: Path, texts: list[dict[str, Any]]) -> None:
    plan = Plan(("drift",), layers=(0, 2), states=tmp_path / "states")
    inspection(str(folder), Wish(SHORT, plan, against="none"))
    model = open_model(folder).model
    assert len(list((tmp_path / "states").iterdir())) == 3
    with torch.no_grad():
        hidden = model(**texts[1], output_hidden_states=True).hidden_states
    with safe_open(tmp_path / "states" / "text-0002.safetensors", "pt") as file:
        kinds = ("resid_pre", "resid_mid", "resid_post")
        assert set(file.keys()) == {f"{i}.{name}" for i in (0, 2) for name in kinds}
        for layer in (0, 2):
            for name, state in (("resid_pre", hidden[layer]), ("resid_post", hidden[layer + 1])):
                assert file.get_tensor(f"{layer}.{name}") == pytest.approx(state[0], abs=1e-4)
        times = json.loads(file.metadata()["t"])
        assert (times["0.resid_pre"], times["2.resid_pre"], times["2.resid_post"]) == (0.0, 2.0, 3.0)
        assert default_texts()[1].startswith("".join(json.loads(file.metadata()["tokens"])))


def test_a_model_without_a_loss_is_judged_by_its_output(tmp_path: Path) -> None:
    folder = saved(tmp_path / "bert", bert())
    result = inspection(
        str(folder), Wish(TextChoice(texts=1, tokens=16), Plan(("drift", "commutator")), against="none")
    )
    assert result.model.losses == ()
    model: Any = open_model(folder).model
    tokenizer = open_model(folder).tokenizer
    inputs = dict(tokenizer(default_texts()[0], return_tensors="pt", truncation=True, max_length=16))
    with torch.no_grad():
        own = model(**inputs)[0]
        del model.encoder.layer[1]
        other = model(**inputs)[0]
    assert result.model.skipped[1].changes[0] == pytest.approx(float((other - own).norm() / own.norm()), rel=1e-4)


def test_parallel_blocks_have_no_commutator(tmp_path: Path) -> None:
    folder = saved(tmp_path / "gptj", gptj())
    result = inspection(
        str(folder), Wish(TextChoice(texts=2, tokens=16), Plan(("drift", "commutator")), against="none")
    )
    assert (result.model.scheme, len(result.model.losses)) == ("A+F", 2)
    assert result.model.missing == (("commutator", "not defined for blocks of this scheme"),)
    assert not any(one.probe == "commutator" for one in result.model.series)


def test_the_plane_of_particles_is_that_of_principal_components() -> None:
    random = torch.Generator().manual_seed(0)
    points = torch.randn(400, 12, generator=random, dtype=torch.float64) * torch.linspace(3, 0.1, 12)
    plane, mean = principal_plane([points])
    _, _, v = torch.linalg.svd(points - points.mean(0))
    assert torch.allclose(mean, points.mean(0))
    assert (plane.T @ v[:2].T).abs().diagonal() == pytest.approx(torch.ones(2), abs=1e-3)
    assert directions(points).norm(dim=-1) == pytest.approx(torch.ones(400))


def test_our_own_runs_are_shown_examples_of_their_task(tmp_path: Path) -> None:
    run = tmp_path / "digits"
    shape = ["model.layers=2", "model.width=16", "model.heads=2", "model.ffn=16"]
    assert main(["train", "digits", "--out", str(run), *shape, "train.steps=1", "train.evaluate_every=1"]) == 0
    result = inspection(str(run), Wish(TextChoice(texts=2), Plan(("drift", "jacobian", "attention"))))
    assert (result.texts, result.source) == (2, "validation examples of digits")
    assert len(result.model.losses) == 2
    assert {one.probe for one in result.model.series} >= {"drift", "jacobian", "attention"}
    assert result.null is not None


def test_nothing_is_kept_of_later_texts_but_figures(folder: Path) -> None:
    result = inspection(
        str(folder), Wish(TextChoice(texts=7, tokens=8), Plan(("drift", "jacobian"), 2), against="none")
    )
    assert (len(result.model.paths), len(result.model.losses)) == (4, 7)
    assert {(one.probe, one.texts) for one in result.model.series} == {("drift", 7), ("jacobian", 2), ("sizes", 7)}
    assert all(len(one.changes) == 7 for one in result.model.skipped)


def test_a_network_that_was_built_is_given_random_numbers(tmp_path: Path) -> None:
    built = approximate("max", tokens=2, dim=1, eps=0.05)
    built.model.save_pretrained(tmp_path / "max")
    result = inspection(str(tmp_path / "max"), Wish(TextChoice(texts=3), Plan(("drift", "attention", "jacobian"), 3)))
    assert result.source == "random numbers from 0 to 1"
    assert result.texts == 3
    found = result.model.find("attention", "first token")
    assert abs(found.mean[0] - 0.5) < 1e-6  # of two heads, each reads one token
