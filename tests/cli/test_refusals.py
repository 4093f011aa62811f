"""Wrong words are refused in one line that says what to type instead, before anything is made."""

import shlex
from pathlib import Path

import pytest
import torch
from commands import refusal

FILES = {
    "tiny.yaml": "task: digits\nmodel: {layers: 2, width: 16, heads: 2, ffn: 64}\ntrain: {steps: 6, batch: 8}\n",
    "text.yaml": "task: text\ndata: {path: [book.txt], length: 16}\nmodel: {layers: 1, width: 16, heads: 2, ffn: 32}\n",
    "distil": "task: digits\nmodel: {layers: 1, width: 8, heads: 1}\ntrain: {steps: 7}\n",
    "book.txt": "It was a bright cold day in April, and the clocks were striking thirteen. " * 40,
    "mistake.yaml": "task: digits\nmodel: {layers: 1\ntrain: 3\n",
    "twice.yaml": "task: digits\nmodel: {layers: 2}\ntrain: {steps: 6}\n\ntrain: {steps: 9}\n",
    "bomb.yaml": "task: digits\nx0: &x0 [1]\n"
    + "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 10)),  # 10^9 entries
}
COMPARE = "compare --schemes lie,macaron --out out"
SHAPE = "for an input of shape (2, 1): it must return the shape that it takes."
LINES = {
    "": "Missing verb",
    "shemes": "Did you mean schemes?",
    "xyz": "Known: ",
    "recipe": "Unknown verb 'recipe'. Did you mean recipes?",
    "--jsn": "Unknown option --jsn",
    "-- nothing": "No such command",
    "schemes --json=1": "does not take a value",
    "schemes -q": "Unknown option -q",
    "schemes macron": "Did you mean macaron?",
    "schemes A/2 --out out": "its fractions must sum to 1",
    "schemes --out /dev/null": "--out /dev/null is not a directory",
    "schemes --out /dev/null/x": "Not a directory",
    "recipes digist": "There is no recipe 'digist' in the package. Did you mean digits?",
    "recipes digits --json": "leave out --markdown, --json and --out",
    "recipes --markdown --json": "--markdown only prints a table",
    "recipes --jsn": "Unknown option --jsn. Did you mean --json?",
    "tasks --markdown --out x": "--markdown only prints a table",
    "tasks digits": "unexpected extra argument",
    "tasks --out book.txt": "is not a directory",
    "compare --task multi30k --schemes lie --out x": "multi30k-de-en, multi30k-en-de",
    "compare digits --task stdlib --schemes lie --out x": "is for digits",
    "compare gleu": "There is no recipe 'gleu'. Did you mean `splitstep compare glue ...`?",
    "compare distill T S": "There is no recipe 'distill'. Did you mean `splitstep compare distil ...`?",
    "compare --out out glue": "There is no recipe 'glue'. Did you mean `splitstep compare glue ...`?",
    "compare gleu --start a=b": "Unknown option --start. It belongs to splitstep compare glue. See splitstep compare",
    "compare digits --methods ce": "Unknown option --methods. It belongs to splitstep compare distil.",
    "compare glue --schemes lie": "It belongs to splitstep compare. See splitstep compare glue",
    "compare distil T --sweep train.lr=1,2": "It belongs to splitstep compare and splitstep compare glue.",
    "compare glue --strat a=b": "Unknown option --strat. Did you mean --start? See splitstep compare glue --help.",
    "compare glue-rt --schemes lie --out out": "Did you mean glue-rte?",
    "compare ./distil --seeds 0 --out out": "--seeds 0: give at least 1",  # a recipe, and not a verb
    "compare --schemes lie,macaron --seeds 0 --out out -- distil": "--seeds 0: give at least 1",
    "compare glue": "Missing option '--start'. Pre-trained runs, as in lie=runs/a",
    "compare glue digits --start a=b --out out": "takes entries to change, such as train.steps=500, but not 'digits'",
    "compare distil": "Missing argument 'TEACHER'. A causal model",
    "compare distil T S --text a --methods ce --out out --answer-tokens 0": "--answer-tokens 0: give at least 1",
    COMPARE: "--task digits",
    f"{COMPARE} --task digit": "Did you mean digits?",
    f"{COMPARE} none.yaml": "there is no recipe 'none.yaml'",
    f"{COMPARE} tiny.yaml train.stepz=5": 'did you mean "steps"?',
    f"{COMPARE} tiny.yaml model.widht=5": 'did you mean "width"?',
    f"{COMPARE} tiny.yaml modle.width=5": 'did you mean "model"?',
    f"{COMPARE} tiny.yaml model.width=wide": "model: width is 'wide', and needs a whole number",
    f"{COMPARE} tiny.yaml data.patch=3": "patch is 3, which does not divide images of 8 pixels",
    f"{COMPARE} tiny.yaml --match time": "'time' is not one of 'parameters', 'flops', 'none'",
    f"{COMPARE} tiny.yaml --seeds 0": "at least 1",
    f"{COMPARE} tiny.yaml --seeds {10**20}": "at most 10,000",
    f"{COMPARE} tiny.yaml train.seed=10000000000000000000": "below 2^63",
    f"{COMPARE} tiny.yaml --engine cloud": "local=N",
    f"{COMPARE} tiny.yaml --sweep train.lr": "train.lr=1e-3,3e-3",
    f"{COMPARE} tiny.yaml --sweep train.lrr=1,2": 'did you mean "lr"?',
    "compare tiny.yaml --schemes 'lie,A F' --out out": "listed twice",
    "compare tiny.yaml --schemes lie,macaron --out book.txt": "not a directory",
    "compare text.yaml data.path=nowhere.txt --schemes lie,macaron --out out": "nowhere.txt",
    "train text.yaml data.path=nowhere.txt --out out": "nowhere.txt",
    "train tiny.yaml scheme=macaron model.ffn=1 --out out": "comes no nearer",
    "train tiny.yaml model.width=1048576 --out out": "lower model.width, model.ffn or model.layers",
    "train book.txt --out out": "book.txt",
    "train tiny.yaml train.lr=-1 --out out": "above 0",
    "train tiny.yaml train.mode=capture --out out": "CUDA",
    "train mistake.yaml --out out": "mistake.yaml, line 3, column 6 is not YAML: expected ',' or '}'",
    "train twice.yaml --out out": "twice.yaml, line 5, column 1 is not YAML: train is there twice: keep one",
    "train tiny.yaml 'train={lr: 1, lr: 2}' --out out": "is not a YAML value",
    "train bomb.yaml --out out": "line 3, column 10 is not YAML: the alias *x0 is not allowed: write its value out",
    "train tiny.yaml 'train={lr: &a 1, eps: *a}' --out out": "is not a YAML value",
    "evaluate nowhere": "(it has no recipe.yaml): name a run, or say on what to evaluate the model, such as --task",
    "evaluate nowhere --split test --out nowhere": "the run's own directory",
    "evaluate nowhere --task stdlob": 'did you mean "stdlib"?',
    "generate no/where/at-all": "no/where/at-all is not there: name a run of splitstep, a model's folder",
    "generate . --top-k 0": "top-k of at least 1",
    "generate . --top-k many": "Invalid value for '--top-k'",
    "generate . --top-p 0": "top-p above 0 and at most 1; got 0.0",
    "generate . --top-p nan": "top-p above 0 and at most 1; got nan",
    "generate . --temperature 0 --top-k 3": "leave out --top-k and --top-p",
    "generate . --stop ''": "a stop word is empty",
    "generate . --stop": "--stop",
    "generate . --stopp x": "Did you mean --stop?",
    "report nowhere": "has no result.json",
    "report nowhere --markdown --json": "leave out --json and --out",
    "report nowhere --against lie": "add --markdown",
    "ablate --task digits --arms full,no-nrom": 'there is no arm "no-nrom"; did you mean "no-norm"?',
    "ablate --task digits --arms full,,no-norm": "has an empty entry",
    "ablate --task digits --rates 0": "--rates: 0 is not a learning rate",
    "ablate --task digits --seeds 0": "--seeds 0: give at least 1",
    "ablate --task digist": "There is no recipe for a task 'digist'. Did you mean digits?",
    "ablate digist": "there is no recipe 'digist'",
    "ablate train.steps=3": "Missing recipe: name one, as in `splitstep ablate digits",
    "ablate --task digits 'scheme=A F @heun'": "the arm no-residual does not fit the recipe",
    "ablate --task digits 'scheme=A N F M' --arms post": "the arm post does not fit the recipe",
    "ablate --task digits model.norm=none": "the arms full and no-norm are the same for this recipe",
    "ablate --task digits 'ablate.arms={full: {}}'": "there is an arm full already",
    "ablate --task digits --engine cluster": "--engine cluster is unknown",
    "approximate max --eps 0": "eps=0 must be a positive number.",
    "approximate 'lambda x: np.log(x)'": "not finite",
    "approximate 'lambda x: np.random.random(x.shape)'": "must not be random",
    "approximate 'lambda x: undefined(x)'": "fails on an array",
    "approximate 'lambda x: x.sum()' --lipschitz 2": f"returns shape () {SHAPE}",
    "approximate 'lambda x: x[0] if x[0, 0] < 0.5 else x'": f"returns shape (1,) {SHAPE}",
    "approximate max --tokens 4 --no-positions": "2 tokens, or of 3 of dimension 1",
    "approximate maxx": "Did you mean max?",
    "approximate max --sweep beta=1": "give several eps",
    "approximate max --sweep eps=0.2,-1": "eps=-1",
    "approximate max --sweep eps=0.2,abc": "abc",
    "approximate max --sweep eps=0.2,nan": "eps=nan",
    "approximate max --sweep eps=0.2,1e-300": "eps=1e-300",
    "approximate max --tokens 9": "needs at least",
    "approximate sort --no-positions": "is not equivariant",
    "approximate max --lipschitz 0.5": "is contradicted",
    "converge": "splitstep converge runs/digits",
    "converge --task digits": "or --depths",
    "converge --task digits --depths 3": "give at least two different depths",
    "converge --task digits --depths 3,6 --steps 1": "--steps is for a run",
    "converge --task digits --depths 3,6 --seeds 0": "--seeds 0",
    "converge --task digits --depths 3,6 --out .": "holds other files",
    "converge digits scheme=lie-postnorm --depths 3,6 --out new": "there is no equation",
    "converge digits model.step=-1 --depths 3,6 --out new": "step=-1",
    "converge numbers --depths 3,6 --out new": "models with two stacks",
}


@pytest.mark.parametrize(("line", "message"), LINES.items())
def test_wrong_words_are_one_line_and_leave_nothing(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "train.mode=capture" in line and torch.cuda.is_available():
        pytest.skip("a GPU can capture")
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert message in refusal(capsys, *shlex.split(line))
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(FILES)
