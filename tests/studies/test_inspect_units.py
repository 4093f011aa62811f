"""Texts are measured together and each as if it were alone; units are kept, and a deeper look adds to what is there."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from pretrained_folders import bert, gptj, llama, saved
from torch import Tensor

import splitstep as ss
from splitstep.models import CausalConfig, SplitstepForCausalLM
from splitstep.opening import load, open_model
from splitstep.opening.texts import default_texts
from splitstep.probes import PROBES
from splitstep.probes.watching import watch_flow, watch_texts
from splitstep.studies.inspect import Inspection, inspection, study
from splitstep.studies.inspect.groups import cut_cost, groups_of
from splitstep.studies.inspect.measures import likely_coordinates
from splitstep.studies.inspect.plan import DEEP, DEFAULT, Plan
from splitstep.studies.inspect.sources import TextChoice
from splitstep.studies.inspect.study import Clock, Wish, prepared
from splitstep.studies.inspect.units import Found, bytes_of, digest, read_unit

FEW = ("drift", "attention", "lens")
CHOICE = TextChoice(texts=4, tokens=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "llama", llama())


def own() -> Any:
    torch.manual_seed(0)
    shape: Any = {"layers": 3, "width": 16, "heads": 2, "ffn": 32, "vocab_size": 100, "max_positions": 32}
    return SplitstepForCausalLM(CausalConfig(scheme="F0/2 A F1/2", **shape)).eval()


def figures(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if isinstance(value, Tensor) else list(value) for key, value in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("make", [llama, bert, gptj, own], ids=lambda make: make.__name__)
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_each_text_of_a_batch_has_the_figures_that_it_has_alone(make: Any, padded: bool) -> None:
    """Of every probe of both depths; five texts of five tokens, so no axis is told by its length."""
    flow: Any = load(make())
    ids = torch.randint(3, 100, (5, 5), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    if padded:
        mask[1, 4:] = mask[3, 3:] = 0
    batch = {"input_ids": ids, "attention_mask": mask}
    names = tuple(name for name in (*DEFAULT, *DEEP) if name != "communities")
    made = {name: {i: PROBES.find(name)() for i in range(5)} for name in names}
    together = dict(watch_texts(flow, batch, made))
    for i in range(5):
        row = {key: value[i : i + 1] for key, value in batch.items()}
        alone = watch_flow(flow, row, {name: PROBES.find(name)() for name in names})
        for name in names:
            for key, wanted in figures(alone[name][flow.main]).items():
                found = figures(together[name][i])[key]
                assert torch.tensor(found) == pytest.approx(torch.tensor(wanted), rel=1e-5, abs=1e-6, nan_ok=True)


def test_texts_of_several_lengths_have_the_figures_that_they_have_alone(folder: Path) -> None:
    texts = [
        "The cat sat on the mat and looked.",
        default_texts()[0],
        "The dog ran over the bridge.",
        default_texts()[1],
    ]
    wish = Wish(TextChoice(tokens=12, texts=4, given=tuple(texts)), Plan(FEW), against="none")
    together = inspection(str(folder), wish)
    for i, text in enumerate(texts):
        choice = TextChoice(tokens=12, texts=1, given=(text,))
        alone = inspection(str(folder), Wish(choice, Plan(FEW), against="none"))
        assert alone.model.losses[0] == pytest.approx(together.model.losses[i], rel=1e-5)
        for one in alone.model.series:
            wanted = together.model.find(one.probe, one.name)
            assert wanted is not None
            assert one.figures[0] == pytest.approx(wanted.figures[i], rel=1e-5, abs=1e-6)
        for one, other in zip(alone.model.skipped, together.model.skipped, strict=True):
            assert one.changes[0] == pytest.approx(other.changes[i], abs=1e-5)


def looked(folder: Path, out: Path | None, **plan: Any) -> Inspection:
    return inspection(str(folder), Wish(CHOICE, Plan(**{"probes": FEW, **plan})), out)


def times(out: Path) -> dict[str, int]:
    return {str(one.relative_to(out)): one.stat().st_mtime_ns for one in out.rglob("units/*/*/*")}


def test_a_deeper_look_adds_to_what_is_there_and_measures_nothing_again(folder: Path, tmp_path: Path) -> None:
    first = looked(folder, tmp_path)
    before = times(tmp_path)
    assert looked(folder, tmp_path).json() == first.json()
    assert times(tmp_path) == before
    cut = looked(folder, tmp_path, cut=2)
    assert cut.model.series == first.model.series
    assert cut.model.skipped == first.model.skipped
    assert len(cut.model.evidence.halves) == 8
    [chosen] = cut.model.evidence.cuts
    assert (len(chosen.layers), chosen.chosen_on, len(chosen.changes[1])) == (2, 4, 24)
    again = looked(folder, tmp_path)
    assert again.json() == cut.json()
    assert before.items() <= times(tmp_path).items()
    assert looked(folder, None, cut=2).json() == cut.json()


def test_the_cost_of_a_list_is_that_of_the_model_without_these_layers(folder: Path, tmp_path: Path) -> None:
    found = ss.inspect(
        folder, texts=4, tokens=16, probes=("drift",), cut=2, save=tmp_path / "small", out=tmp_path / "out"
    )
    [cut], tokens = found.model.evidence.cuts, open_model(folder).tokenizer
    models = [open_model(one).model for one in (tmp_path / "small", folder)]
    assert [len(one.model.layers) for one in models] == [2, 4]
    others = TextChoice(texts=4, tokens=16).all[4:28]
    changes = list[float]()
    for text in others:
        ids = tokens(text, return_tensors="pt", truncation=True, max_length=16).input_ids
        with torch.no_grad():
            one, other = (float(model(input_ids=ids, labels=ids).loss) for model in models)
        changes.append(one - other)
    assert cut.changes[1] == pytest.approx(changes, abs=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"against": "none"}, "beside another model"),
        ({"choice": TextChoice(texts=3, tokens=16)}, "on other texts"),
        ({"plan": Plan(("drift",))}, "with other --probes"),
        ({"plan": Plan(FEW, layers=(0, 1))}, "with other --layers"),
    ],
)
def test_another_look_in_the_same_folder_is_refused(
    folder: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    wish = Wish(CHOICE, Plan(FEW))
    inspection(str(folder), wish, tmp_path)
    with pytest.raises(ValueError, match=f"{message}: name a new directory with --out, or delete it"):
        inspection(str(folder), wish._replace(**change), tmp_path)


def test_any_changed_weight_is_another_model(folder: Path, tmp_path: Path) -> None:
    looked(folder, tmp_path / "out")
    model = llama()
    with torch.no_grad():
        model.model.layers[3].mlp.down_proj.weight[-1, -1] += 1e-6
    with pytest.raises(ValueError, match="of another model: name a new directory"):
        looked(saved(tmp_path / "changed", model), tmp_path / "out")
    one, other = torch.arange(4.0), torch.arange(4.0)
    assert (
        digest([("a", one), ("b", one)]) == digest([("a", other), ("b", other)]) != digest([("a", one), ("b", other)])
    )
    assert digest([("a", torch.zeros(2))]) != digest([("a", torch.zeros(2, 1))]) != digest([("b", torch.zeros(2, 1))])


def test_a_unit_is_read_back_as_it_was_and_a_damaged_one_is_measured_again(folder: Path, tmp_path: Path) -> None:
    one = Found({0: {"x": (0.1, float("inf")), "y": torch.eye(3)}, 2: {"x": (1e-300,)}}, "why", {"a": [1]})
    (tmp_path / "unit").write_bytes(bytes_of(one))
    back = read_unit(tmp_path / "unit")
    assert back is not None
    assert torch.equal(torch.as_tensor(back.rows[0].pop("y")), torch.eye(3))  # pyright: ignore[reportAttributeAccessIssue]
    assert (back.rows, back[1:]) == ({0: {"x": (0.1, float("inf"))}, 2: {"x": (1e-300,)}}, one[1:])
    first = looked(folder, tmp_path / "out")
    file = tmp_path / "out" / "units" / "model" / "drift" / "0.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1] if len(content) % 2 else content[: len(content) // 2])
    assert looked(folder, tmp_path / "out").json() == first.json()
    assert file.read_bytes() == content


def test_an_open_model_stays_as_it_is_and_nothing_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = open_model(folder)
    model = opened.model.to(torch.bfloat16).train()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    texts = [default_texts()[0], "The cat sat on the mat."]
    found = ss.inspect(model, texts, tokenizer=opened.tokenizer, tokens=12, probes=("drift", "attention"))
    assert capsys.readouterr() == ("", "")
    assert model.training
    assert all(torch.equal(x, before[name]) and x.dtype == before[name].dtype for name, x in model.state_dict().items())
    assert (found.texts, found.source) == (2, "Python")
    assert found.verdict is not None
    frame = found.layers
    assert list(frame["layer"]) == [0, 1, 2, 3]
    assert list(frame["left out"]) == [one.mean for one in found.model.skipped]
    ss.inspect(model, texts, tokenizer=opened.tokenizer, tokens=12, probes=("drift",), progress=True)
    assert "2 texts of at most 12 tokens: about" in capsys.readouterr().err
    with pytest.raises(ValueError, match="needs its tokenizer"):
        ss.inspect(model, texts)


def test_stored_results_of_before_are_read_and_drawn(folder: Path) -> None:
    """They had layers in the place of listed, and no evidence."""
    from splitstep.experiments.study import STUDIES

    document = json.loads(json.dumps(looked(folder, None).json()))
    document["layers"] = document.pop("listed")[:2]
    for name in ("model", "other"):
        del document[name]["evidence"]
    back = STUDIES["inspect"].read(document, "there")
    assert back.listed == (0, 1)


def test_the_time_left_is_the_estimate_at_first_and_then_the_pace(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Ten units of 10 s each, of which each takes 30."""
    now = [1000.0]
    monkeypatch.setattr(study.time, "monotonic", lambda: now[0])
    one = Clock(True)
    one.begin("4 texts", {str(k): 10.0 for k in range(10)})
    assert capsys.readouterr().err == "inspect  4 texts: about 2 minutes\n"
    assert one.left == pytest.approx(100)
    for k in range(9):
        now[0] += 30
        one.did(str(k), f"{k + 1} of 10 layers")
        done = 10.0 * (k + 1)
        assert one.left == pytest.approx((100 - done) * (3 * done + 10) / (done + 10))
    now[0] += 30
    one.did("9", "10 of 10 layers")
    assert one.left == 0.0
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "inspect  1 of 10 layers, about 3 minutes left"  # 90 s by the estimate, 270 s by the pace
    assert len(said) == 10  # each came more than ten seconds after the one before


def test_a_cut_costs_the_later_layers_and_the_head(folder: Path) -> None:
    """Half of a pass is the head; leaving out layer 0 of 4 runs 3 layers, and the last one none."""
    work = prepared(str(folder), Wish(CHOICE, Plan(FEW, cut=2)), Clock(False), ExitStack())
    model = work.model
    model.pace, model.head = 8.0, 0.5
    [batch] = model.batches()
    assert [cut_cost(model, start, batch) for start in (1, 4)] == [8.0 * (0.5 + 0.5 * 0.75), 4.0]
    costs = {unit: cost for one in groups_of(model) for unit, cost in one.costs.items()}
    assert [costs[f"model/out {k}/0"] for k in range(4)] == [7.0, 6.0, 5.0, 4.0]
    assert costs["model/half 0 A/0"] == 8.0 * (0.5 + 0.5 * 0.875)
    assert sum(cost > 0 for unit, cost in costs.items() if unit.startswith("model/held ")) == likely_coordinates(
        model.passed(batch)
    )


def test_what_takes_layers_of_another_model_is_not_planned_for_another_shape(folder: Path, tmp_path: Path) -> None:
    for layers, many in ((4, 4), (3, 0)):
        other = saved(tmp_path / f"other{layers}", llama(layers, 1))
        work = prepared(str(folder), Wish(CHOICE, Plan(FEW), str(other)), Clock(False), ExitStack())
        assert sum(one.what == "layers swapped" for one in work.groups) == many


def test_of_the_null_model_verdicts_have_all_texts_and_curves_one(folder: Path) -> None:
    found = looked(folder, None, deep=True, probes=("drift",))
    model, null = ({one.probe: one.texts for one in each.series if one.probe in DEEP} for each in found.models)
    assert model == dict.fromkeys(DEEP, 4) | {"leading": 3}
    assert null == {"jacobian": 4, "products": 4, "commutator": 1}
