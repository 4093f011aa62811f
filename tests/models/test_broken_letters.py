"""A letter of others that breaks what models promise is refused in one line, with a figure, before anything is done."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import refusal
from torch import Tensor, nn
from torch.nn import functional

from splitstep import cli, own_letters
from splitstep.fields import Context, FieldSpec
from splitstep.fields.context import states_of
from splitstep.letters import LETTERS, Letter
from splitstep.models import contract


class Linear(nn.Module):
    """W norm(x), which keeps every promise."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        self.norm, self.weight = spec.norm(), nn.Linear(spec.width, spec.width)

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        return self.weight(self.norm(x))

    def flops(self, length: int, memory: int) -> int:
        return 2 * length * self.weight.weight.numel()


class Leak(Linear):
    """A convolution that is centred, in causal models too."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__(spec)
        self.taps = nn.Conv1d(spec.width, spec.width, 3, padding=1, groups=spec.width)

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        return self.taps(super().forward(t, x).mT).mT

    def flops(self, length: int, memory: int) -> int:
        return super().flops(length, memory) + 2 * length * self.taps.weight.numel()


class Unmasked(Linear):
    """The mean over all tokens, padding included."""

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        return super().forward(t, x).mean(1, keepdim=True).expand_as(x)


class Previous(Linear):
    """The token before unless it is padding, whatever document it is of."""

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        context = context or Context()
        states, new = states_of(super().forward(t, x), context)
        before = (new - 1).clamp(min=0)
        real = (new > 0)[None]
        if context.documents is not None:
            real = real & (context.documents[:, before] > 0)
        return states[:, before] * real[..., None]


class Forgetful(Linear):
    """The token before, of this call alone."""

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        return functional.pad(super().forward(t, x)[:, :-1], (0, 0, 1, 0))


class OwnCache(Linear):
    """Adds all tokens so far, and keeps them in a cache of its own that nobody can reorder or crop."""

    kept: Tensor | None = None

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        y = super().forward(t, x)
        if context is None or context.cache is None:
            return y.cumsum(1)
        new = context.cache.get_seq_length(0) == x.shape[1]  # attention of the first layer has been here
        sums = y.cumsum(1) + (0 if new or self.kept is None else self.kept)
        self.kept = sums[:, -1:]
        return sums


class Counting(Linear):
    """A field that grows with every call."""

    calls = 0

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        self.calls += 1
        return super().forward(t, x) * (1 + self.calls / 10)


class Random(Linear):
    """Dropout that is drawn anew in each call."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__(spec)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        return self.dropout(super().forward(t, x))


class Batch(Linear):
    """A norm over the batch, with running means."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__(spec)
        self.over = nn.BatchNorm1d(spec.width)

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        return self.over(super().forward(t, x).mT).mT


class Free(Linear):
    """A product that costs nothing, as it says."""

    def flops(self, length: int, memory: int) -> int:
        return 0


class Unsaved(Linear):
    """Numbers that no file keeps: after loading, whatever the memory held."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__(spec)
        self.noise: Tensor
        self.register_buffer("noise", torch.randn(spec.width), persistent=False)

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        return super().forward(t, x) + self.noise


class Single(Linear):
    """A field that has no float64."""

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        if x.dtype is torch.float64:
            raise RuntimeError("no kernel for doubles")
        return super().forward(t, x)


class Failing(Linear):
    """A field that does not take one token."""

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        if x.shape[1] == 1:
            raise IndexError("a token\nis missing")
        return super().forward(t, x)


class Divided(Linear):
    """A field that divides by the number of other tokens."""

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        y = super().forward(t, x)
        many = torch.full_like(y[..., :1], x.shape[1] - 1)
        return y * many / many


class Broad(Linear):
    """A field of at least 48 dimensions, and of at least 6 rows of patches."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__(spec)
        if spec.width < 48 or (spec.grid and spec.grid[0] < 6):
            raise ValueError("use width=48 or more, and larger images")


FIGURE = r"(\d\.\d+|[1-9]\d*)"
BROKEN = {
    "leak": (Leak, "causal", "nothing", rf"logits move by {FIGURE} when a later token moves"),
    "leak, in a decoder": (Leak, "translation", "nothing", rf"logits move by {FIGURE} when a later token moves"),
    "padding": (Unmasked, "masked", "nothing", rf"padding moves logits by {FIGURE}"),
    "padding of numbers": (Unmasked, "vectors", "nothing", rf"padding moves logits by {FIGURE}"),
    "packing": (Previous, "causal", "all inputs", rf"move each other's logits by {FIGURE}"),
    "forgetting": (Forgetful, "causal", "nothing", rf"with a cache are {FIGURE} off those without"),
    "own cache": (OwnCache, "causal", "nothing", rf"with a cache are {FIGURE} off those without"),
    "counting": (Counting, "image", "nothing", rf"same input, a field's values differ by {FIGURE}"),
    "drawing": (Random, "sequence", "nothing", rf"same input, a field's values differ by {FIGURE}"),
    "batch": (Batch, "causal", "nothing", rf"logits move by {FIGURE} when a later token moves"),
    "flops": (Free, "image", "nothing", r"what flops\(\) tells is \d+\.\d% off what PyTorch counts"),
    "saving": (Unsaved, "image", "nothing", rf"a saved and loaded model differ by ({FIGURE}|inf)"),
    "not a number": (Divided, "causal", "nothing", "with a cache are inf off those without"),
    "an idle cache": (
        Linear,
        "causal",
        "last inputs",
        "declares a state that its field does not keep in context.cache",
    ),
    "an idle cache of a decoder": (Linear, "translation", "all inputs", 'a letter declares .*: state="nothing"'),
    "failing": (Failing, "causal", "nothing", "the test of cache ended with IndexError: a token"),
}  # field, kind, state, what is said


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters of the tests leave again, and nothing is known of them."""
    monkeypatch.setattr(LETTERS, "given", {})
    monkeypatch.setattr(contract, "_met", {})


def letter(field: Any, state: Any = "nothing", **more: Any) -> None:
    LETTERS.give("Q", Letter("quirk", "#123456", field=field, state=state, documents=field is Previous, **more))


def model(kind: str, scheme: str = "A Q F", **more: Any) -> Any:
    found = contract.KINDS.find(kind)
    return found.model(found.config(layers=1, width=64, heads=4, ffn=16, scheme=scheme, **more))


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_letter_is_refused_with_a_figure(case: str) -> None:
    field, kind, state, says = BROKEN[case]
    letter(field, state)
    with pytest.raises(ValueError, match=rf"^The letter Q \(quirk\) is refused in splitstep-{kind} models: ") as found:
        model(kind)
    line = str(found.value)
    assert re.search(says, line), line
    assert "\n" not in line
    assert line.endswith('`splitstep schemes "A Q" --check` shows all promises.')
    for unharmed in ("causal", "image"):
        model(unharmed, "A F")


@pytest.mark.parametrize("kind", contract.SHAPES)
@pytest.mark.parametrize("field", [Linear, Single, Broad])
def test_a_good_letter_is_let_in(kind: str, field: Any) -> None:
    letter(field)
    model(kind, "A Q0/2 F Q1/2 @heun")


def test_a_letter_is_tried_once_for_a_kind_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    letter(Linear)
    tried: list[Any] = []
    whole = contract.findings
    monkeypatch.setattr(contract, "findings", lambda *given: tried.append(given[0]) or whole(*given))
    torch.manual_seed(3)
    one = model("causal")
    torch.manual_seed(3)
    other = model("causal")
    assert tried == ["A Q @midpoint"]
    with torch.device("meta"):
        assert model("masked").device.type == "meta"
    assert len(tried) == 2
    for x, y in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(x, y)


def test_a_saved_model_opens_only_if_its_letters_keep_their_promises(tmp_path: Path) -> None:
    letter(Linear)
    model("causal", tie_word_embeddings=False).save_pretrained(tmp_path)
    contract._met.clear()
    opened = contract.KINDS["causal"].model.from_pretrained(tmp_path)
    assert str(opened.config.scheme) == "A Q F"
    letter(Leak)
    with pytest.raises(ValueError, match="is refused in splitstep-causal models: logits move by"):
        contract.KINDS["causal"].model.from_pretrained(tmp_path)


TEXT = (
    "task: text\ndata: {path: [book.txt], length: 16}\nmodel: {layers: 1, width: 16, heads: 2, ffn: 32}\n"
    "train: {steps: 2, batch: 2, warmup: 1}\nmatch: none\n"
)
VERBS = {
    "train": "train text.yaml scheme='A Q F' --out out",
    "train, twin": "train text.yaml scheme='A Q F' match=parameters --out out",
    "compare": "compare text.yaml --schemes 'lie,A Q F' --match none --seeds 1 --out out",
    "compare, twins": "compare text.yaml --schemes 'lie,A Q F' --seeds 1 --out out",
    "converge": "converge text.yaml scheme='A Q F' --depths 1,2 --out out",
    "ablate": "ablate text.yaml scheme='A Q F' --out out",
    "inspect": "inspect saved --out out",
    "converge of a model": "converge saved --out out",
    "generate": "generate saved --tokens 1",
}


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe and its text, in the present folder."""
    monkeypatch.chdir(tmp_path)
    Path("text.yaml").write_text(TEXT)
    Path("book.txt").write_text("It was a bright cold day in April, and the clocks were striking thirteen. " * 40)


@pytest.mark.usefixtures("text")
@pytest.mark.parametrize("case", VERBS)
def test_every_verb_refuses_a_leak_in_one_line(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "saved" in VERBS[case]:
        letter(Linear)
        model("causal", vocab_size=256).save_pretrained("saved")
        capsys.readouterr()
    letter(Leak)
    line = refusal(capsys, *shlex.split(VERBS[case]))
    assert re.search(rf"The letter Q \(quirk\) is refused in splitstep-causal models: logits move by {FIGURE}", line)
    assert not Path("out").exists()


FILE = '''
import splitstep as ss
from torch import nn


@ss.letter("W", "window", mixes=True)
class Window(nn.Module):
    """A convolution that is centred, in causal models too."""

    def __init__(self, spec):
        super().__init__()
        self.norm, self.taps = spec.norm(), nn.Conv1d(spec.width, spec.width, 3, padding=1, groups=spec.width)

    def forward(self, t, x, context=None):
        return self.taps(self.norm(x).mT).mT

    def flops(self, length, memory):
        return 2 * length * self.taps.weight.numel()
'''


@pytest.mark.usefixtures("text")
def test_a_leak_in_a_file_of_letters_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(own_letters, "SOURCES", {})
    monkeypatch.setattr(contract, "SOURCES", own_letters.SOURCES)
    Path("mine.py").write_text(FILE)
    for words in ("train text.yaml scheme='A W F'", "compare text.yaml --schemes 'lie,A W F' --seeds 1"):
        line = refusal(capsys, *shlex.split(words), "--letters", "mine.py", "--out", "out")
        assert re.search(rf"W \(window\) is refused in splitstep-causal models: logits move by {FIGURE}", line)
        assert '`splitstep schemes "A W" --check --letters mine.py`' in line
        assert not Path("out").exists()
    assert cli.main(["schemes", "A W", "--check", "--letters", "mine.py"]) == 1


def test_a_table_shows_which_promises_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    letter(Leak)
    assert cli.main(["schemes", "A Q", "--check", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    [row] = document["rows"]
    found = {one["kind"]: one for one in row["promises"]}
    assert found["image"]["broken"] == {"mixing": found["image"]["broken"]["mixing"]}
    assert found["causal"]["broken"].keys() == {"later", "padding", "packing", "cache", "mixing"}
    assert cli.main(["schemes", "A Q", "--check", "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert re.search(
        rf"^causal +{FIGURE} +{FIGURE} +{FIGURE} +{FIGURE} +{FIGURE} +holds +holds +holds$", shown, re.MULTILINE
    )
    assert shown.startswith("Of models of 1 scheme, ")
    assert cli.main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == shown
    assert cli.main(["schemes", "A F", "--check"]) == 0
    assert "Of models of 1 scheme, all 35 promises are kept." in capsys.readouterr().out


def test_the_guide_names_every_promise_and_its_letter_keeps_them() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "extending.md").read_text()
    table = guide.partition("### What every model promises")[2].partition("### ")[0].partition("\n\nA letter")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(contract.PROMISES)
    [code] = [block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "class Mean" in block]
    names: dict[str, Any] = {"nn": nn, "Tensor": Tensor, "Time": Any}
    exec(code, names)
    LETTERS.give("Q", names["MEAN"])
    for kind in ("causal", "masked", "translation"):
        contract.check("A Q0/2 F Q1/2 @midpoint", kind)
