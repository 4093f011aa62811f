"""Pictures for a lecture: at most three lines of Python each."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch
from distil_pairs import bpe, llama, saved
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from transformers import AutoModelForCausalLM

import splitstep as ss
from splitstep.experiments.study import STUDIES
from splitstep.report.charts import Axis, Line, LineChart, Particles
from splitstep.studies.trajectory import Trajectory

SCHEMES = Path(__file__).parents[2] / "results" / "schemes"
TEXT = "Sort the words of a line."


def slope(line: Any) -> float:
    """Of a line of Matplotlib on two logarithmic axes, between its last two points."""
    (x0, x1), (y0, y1) = (torch.as_tensor(one[-2:]).log().tolist() for one in (line.get_xdata(), line.get_ydata()))
    return (y1 - y0) / (x1 - x0)


def test_errors_of_schemes_are_parallel_to_the_guide_lines_of_their_orders() -> None:
    """Three lines: import, this one, and `plt.show()` in a script."""
    [axes] = ss.orders("lie", "F/2 A F/2 @midpoint", ss.scheme("rk4")).plot().axes
    found = {line.get_label(): slope(line) for line in axes.lines}
    assert {"order 1", "order 2", "order 4"} < set(found)
    assert "order 3" not in found  # no scheme here has it
    typed = "F/2 A F/2 @midpoint (strang-midpoint)"  # names and notations stand in the legend as they were typed
    for name, guide in (("lie", "order 1"), (typed, "order 2"), ("A+F @rk4 (rk4)", "order 4")):
        assert found[guide] == pytest.approx(-int(guide[-1]))
        assert found[name] == pytest.approx(found[guide], abs=0.15)
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [one.get_text() for one in axes.get_xticklabels()] == ["4", "8", "16", "32", "64", "128", "256"]
    assert list(axes.get_xticks(minor=True)) == []
    plt.close("all")


def test_what_was_typed_is_not_stored(tmp_path: Path) -> None:
    ss.orders("F/2 A F/2 @midpoint").save(tmp_path)
    assert "typed" not in (tmp_path / "result.json").read_text()


def test_the_frame_of_orders_has_a_row_for_each_scheme() -> None:
    frame = ss.orders("lie", "rk4").frame()
    assert list(frame["name"]) == ["lie", "rk4"]
    assert list(frame["order"]) == [1, 4]
    assert frame["measured.time_dependent"].tolist() == pytest.approx([1, 4], abs=0.1)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return saved(llama(bpe(), 3, 16), bpe(), tmp_path / "model")


def test_states_of_a_trajectory_are_the_model_s_hidden_states(folder: str) -> None:
    found = ss.trajectory(folder, TEXT)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    model.model.norm = torch.nn.Identity()  # its last hidden state is normed
    ids = bpe()(TEXT, return_tensors="pt").input_ids
    hidden = model(ids, output_hidden_states=True).hidden_states
    torch.testing.assert_close(found.states[0], torch.cat(hidden).detach())
    assert "".join(found.particles[0].tokens) == TEXT
    assert [name for name, _ in found.depths] == ["embedding", "layer 0", "layer 1", "layer 2"]


def test_particles_are_drawn_in_the_plane_of_the_two_leading_directions(folder: str) -> None:
    found = ss.trajectory(folder, TEXT)
    x = found.states[0].double()
    points = (x / x.norm(dim=-1, keepdim=True)).flatten(0, 1)
    *_, v = torch.linalg.svd(points - points.mean(0), full_matrices=False)
    exact = (points - points.mean(0)) @ v[:2].T
    frame = found.frame()
    for name, own in zip("xy", exact.T, strict=True):
        assert frame[name].abs().tolist() == pytest.approx(own.abs().tolist(), abs=2e-3)
    [axes] = found.plot().axes
    starts, ends = axes.collections
    places, many = frame[["x", "y"]].to_numpy(), x.shape[1]
    assert starts.get_offsets().tolist() == places[:many].tolist()
    assert len(starts.get_facecolors()) == 0  # hollow
    assert ends.get_offsets().tolist() == places[-many:].tolist()
    assert len(axes.lines) == many  # a path for each token
    plt.close("all")


def particles(tokens: int) -> Trajectory:
    """Tokens that end at nearly one place."""
    x, names = [[0.0] * tokens, [1 + k / 1000 for k in range(tokens)]], [f"token {k}" for k in range(tokens)]
    text = Particles("text", names, x, x, [[0] * tokens] * 2, [[1.0] * tokens] * 2)
    return Trajectory("model", (text,), ())


@pytest.mark.parametrize("tokens", [1, 2, 10, 22, 40])
def test_each_token_has_a_name_apart_from_others_in_the_colour_of_its_path(tokens: int) -> None:
    figure = particles(tokens).plot()
    FigureCanvasAgg(figure).draw()
    [axes] = figure.axes
    boxes = sorted((box.y0, box.y1) for box in map(Text.get_window_extent, axes.texts))  # without their lines
    assert all(below[1] <= above[0] + 0.5 for below, above in pairwise(boxes))
    colours = {one.get_text(): one.get_color() for one in axes.texts}
    assert colours == {f"token {k}": line.get_color() for k, line in enumerate(axes.lines)}
    assert len(set(colours.values())) == tokens


def test_many_tokens_have_a_scale_of_colours_in_place_of_names() -> None:
    axes, scale = particles(41).plot().axes
    assert (list(axes.texts), scale.get_ylabel()) == ([], "place of the token in the text")


def test_a_trajectory_says_what_it_does_only_if_it_is_asked(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = ss.trajectory(folder, [TEXT] * 2)
    assert capsys.readouterr().err == ""
    assert repr(result) == f"<Trajectory: Tokens through the depth of {folder}>"
    ss.trajectory(folder, [TEXT] * 2, progress=True)
    assert capsys.readouterr().err.startswith(f"trajectory  loading {folder}\ntrajectory  states of 1/2 texts\n")


def test_every_result_prints_as_one_line() -> None:
    results = [STUDIES["orders"].read(json.loads((SCHEMES / "result.json").read_text()), ""), ss.doctor(), ss.arms()]
    for one in results:
        assert re.fullmatch(rf"<{type(one).__name__}: .{{4,170}}>", repr(one))


def test_an_open_model_and_several_texts_are_taken_too(folder: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    found = ss.trajectory(model, [TEXT, "Another."], tokens=6, tokenizer=bpe())
    assert [one.shape[1] for one in found.states] == [6, min(6, len(bpe()("Another.").input_ids))]
    assert set(found.frame()["text"]) == {"text 1", "text 2"}
    with pytest.raises(ValueError, match="give at least 2"):
        ss.trajectory(model, TEXT, tokens=1)


def test_a_notebook_shows_schemes_results_and_charts(folder: str) -> None:
    shown: Any = ss.scheme("macaron")._repr_html_()
    assert shown.startswith('<img src="data:image/svg+xml;base64,')
    assert "F0/2 A F1/2" in shown
    chart = LineChart("A curve", Axis("x"), Axis("y"), [Line("one", [1, 2], [3, 4])])
    for one in (chart, ss.orders("lie"), ss.trajectory(folder, TEXT)):
        assert one._repr_html_().startswith("<iframe")
        assert len(one.plot().axes) == 1
    plt.close("all")


def test_letters_and_integrate_take_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert ss.letters.LETTERS["A"].title == "attention"
    steps = ss.uniform({"A": lambda t, x, context: -x, "F": lambda t, x, context: 0 * x}, 1.0, 4)
    x = torch.ones(3, dtype=torch.float64)
    assert torch.equal(ss.integrate("A F", steps, x), ss.integrate(ss.scheme("lie"), steps, x))
    assert torch.equal(ss.integrate("lie", steps, x), x * 0.75**4)
    with pytest.raises(ValueError, match="Did you mean strang"):
        ss.integrate("Strang", steps, x)
