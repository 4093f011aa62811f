"""What newcomers type, after README and --help, and what they are told to type instead."""

import shlex
from pathlib import Path

import pytest
from commands import refusal

FILES = {
    "my.txt": "It was a bright cold day in April, and the clocks were striking thirteen. " * 40,
    "reviews.csv": "text,label\ngood,yes\nbad,no\n",
    "notes/a.txt": "Some notes.",
    "runs/digits/result.json": "{}",
    "runs/text/recipe.yaml": "task: digits\n",
}
MISTAKES = {
    # entries of recipes without their section, or as options, or by the names of other programs
    "train digits steps=100": "did you mean train.steps=100?",
    "train digits lr=1e-3": "did you mean train.lr=0.001?",
    "train digits seed=3": "did you mean train.seed=3?",
    "train digits epochs=3": "a run counts steps, not epochs: type train.steps=1000",
    "train digits device=cpu": "type CUDA_VISIBLE_DEVICES= before the command",
    "train digits model.depth=3": "did you mean model.layers=3?",
    "train digits model.hidden_size=64": "did you mean model.width=64?",
    "train digits model.lr=1e-3": "did you mean train.lr=0.001?",
    "train digits train.batch_size=32": "did you mean train.batch=32?",
    "train digits train.optimizer=adam": "its rate is train.lr=1e-3",
    "train digits train.layers=2": "did you mean model.layers=2?",
    "compare digits steps=100": "did you mean train.steps=100?",
    "train digits --steps 100": "did you mean train.steps=100?",
    "train digits --lr=1e-3": "did you mean train.lr=1e-3?",
    "train digits --batch-size 32": "did you mean train.batch=32?",
    "train digits --epochs 3": "type train.steps=1000",
    "train digits --layers 3": "did you mean model.layers=3?",
    "train digits --dropout 0.1": "did you mean model.dropout=0.1?",
    "train digits --seed 3": "did you mean train.seed=3?",
    "train digits --gpu": "a GPU is used if there is one",
    "train digits --model macaron": "did you mean scheme=macaron?",
    "train digits --scheme macaron": "did you mean scheme=macaron?",
    "train digits --resume": "the same command continues a run",
    "compare --task digits --steps 100": "did you mean train.steps=100?",
    # schemes
    "schemes Strang": "Did you mean strang?",
    "schemes 'a f'": 'Did you mean "A F"?',
    "schemes AF": "as in A F",
    "train digits scheme=Macaron": "Did you mean macaron?",
    "train digits macaron": "did you mean scheme=macaron?",
    "train digits scheme = macaron": "type an entry without blanks",
    "train lie": "type splitstep train digits scheme=lie",
    "compare lie macaron": "type splitstep compare digits --schemes lie,macaron",
    "compare lie,macaron": "type splitstep compare digits --schemes lie,macaron",
    "compare digits lie macaron": "type splitstep compare digits --schemes lie,macaron",
    "compare --task digits --schemes lie": "type --schemes lie,macaron",
    "compare --task digits --schemes rk4": "type --schemes lie,rk4",
    "compare --task digits --scheme lie,macaron": "Did you mean --schemes lie,macaron?",
    "compare --task digits --model lie": "Did you mean --schemes lie?",
    # options of other names
    "compare --task digits --seed 3": "Did you mean --seeds 3?",
    "compare --task digits --output out": "Did you mean --out out?",
    "compare --task digits --workers 2": "Did you mean --engine local=2?",
    "train --task digits": "Type it as the first word: splitstep train digits.",
    "inspect --model gpt2": "Type it as the first word: splitstep inspect gpt2.",
    "generate runs/text --text Hello": "Did you mean --prompt Hello?",
    # one's own files
    "train my.txt": "type splitstep train own-text data.train=my.txt",
    "train notes": "type splitstep train own-text data.train=notes",
    "train reviews.csv": "type splitstep train classify data.train=reviews.csv",
    "train text my.txt": "did you mean data.train=my.txt?",
    "train text --text my.txt": "did you mean data.train=my.txt?",
    "train text data=my.txt": "such as data.train=my.txt",
    "train text data.file=my.txt": "did you mean data.train=my.txt?",
    "compare my.txt": "type splitstep compare own-text data.train=my.txt",
    "compare --text 'Hello, this is text'": "as in --text my.txt",
    # networks that are recipes, or not there
    "converge digits": "type splitstep train digits --out runs/digits",
    "inspect digits": "type splitstep train digits --out runs/digits",
    "evaluate digits": "type splitstep train digits --out runs/digits",
    "inspect ./nope": "there is no folder ./nope",
    "inspect runs/digts": "such as runs/digits",
    "generate runs/txet": "such as runs/text",
    "train runs/text": "type splitstep train runs/text/recipe.yaml",
    "report runs": "such as runs/digits",
    # verbs
    "help": "Did you mean `splitstep --help`?",
    "digits": "Did you mean `splitstep train digits`?",
    "macaron": "Did you mean `splitstep schemes macaron`?",
    "run digits": "Did you mean `splitstep train`?",
    "eval runs/text": "Did you mean `splitstep evaluate`?",
    "list": "`splitstep recipes`",
    "info": "Did you mean `splitstep doctor`?",
}


@pytest.mark.parametrize(("line", "answer"), MISTAKES.items())
def test_a_natural_mistake_is_answered_with_what_to_type(
    line: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert answer in refusal(capsys, *shlex.split(line))
