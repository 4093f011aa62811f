"""Doors to single runs: train, evaluate, translate, generate, predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hints import recipe_meant
from ..recipes import find_recipe
from .common import check_new, default_folder, written
from .door import Lines, door

if TYPE_CHECKING:
    from ..inference.generate import Sample
    from ..inference.predict import Predictions
    from ..inference.translate import Translations
    from ..recipe import Recipe
    from .results import Evaluation, Trained


@door
def train(
    recipe: str,
    *changes: str,
    out: Path | None = None,
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
    tensorboard: bool = False,
    stop: Callable[[], Any] | None = None,
) -> Trained:
    """Train the model of a recipe. If the run is stopped or killed, the same command continues it.

    Example:
      splitstep train digits
      splitstep train enwik8 scheme=macaron train.steps=20000 --out runs/e8
      accelerate launch -m splitstep train enwik8 --out runs/e8

    Ctrl-C saves a checkpoint before it stops. If the run diverges, the result says at which step; the exit code is 1.

    Parameters:
    tensorboard: Also log to DIR/tensorboard.
    """
    if meant := recipe_meant(recipe):
        raise ValueError(meant)
    file = find_recipe(recipe)  # refuses a wrong name before torch is imported
    from ..recipe import load_recipe

    inside = out is None and (file.parent / "environment.json").is_file()  # the recipe is in a run's own directory
    folder = file.parent if inside else default_folder("train", file.stem, out)
    return trained(load_recipe(recipe, changes), folder, data, tensorboard, stop)


def trained(recipe: Recipe, out: Path, data: Path | None, tensorboard: bool, stop: Callable[[], Any] | None) -> Trained:
    """A recipe trained, or its run continued."""
    from ..training import train as run
    from ..training.processes import Stop
    from .results import Trained

    handled = Stop() if stop is None else stop()
    return Trained(out, run(recipe, out, data, tensorboard=tensorboard, stop=handled))


@door
def evaluate(
    model: str,
    *changes: str,
    task: str | None = None,
    split: str = "test",
    beams: int | None = None,
    length_penalty: float | None = None,
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
    out: Path | None = None,
) -> Evaluation:
    """Evaluate a run's model on a split of its data. Translators are also scored by BLEU and chrF.

    A model that is not a run needs a --task with the same tokens or classes.

    Example:
      splitstep evaluate runs/digits
      splitstep evaluate runs/digits --split valid --json
      splitstep evaluate runs/m30k --split test2016
      splitstep evaluate runs/digits/model --task digits
      splitstep evaluate my-model --task text data.train=notes.txt

    Parameters:
    changes KEY=VALUE: With --task: options of the task, such as data.length=64.
    task NAME: The task of a model that is not a run.
    split NAME: The split to evaluate on, such as valid or test.
    out DIR: Also write the result to DIR/result.json.
    """
    from ..inference.evaluate import evaluate_model, evaluate_run
    from ..inference.translate import SearchOverrides
    from ..training.progress import counting
    from .results import Evaluation

    apart(Path(model), out)
    evaluated, wanted = counting("evaluated", unit="batches"), SearchOverrides(beams, length_penalty)
    if task is None:
        found = evaluate_run(a_run(model, changes), split, data, wanted, evaluated, counting("translated"))
    else:
        wanted.refuse_for(task)
        found = evaluate_model(model, task, changes, split, data, evaluated)
    return written(Evaluation(found), out)


def a_run(model: str, changes: Sequence[str]) -> Path:
    """The path of a run, whose recipe names its task and the options; other models are refused."""
    from ..training.directory import RunDirectory

    path = Path(model).expanduser()
    if not RunDirectory(path).is_run():
        raise ValueError(
            f"{model} is not a run of splitstep (it has no recipe.yaml): name a run, or say on what to evaluate the "
            "model, such as --task stdlib"
        )
    if changes:
        raise ValueError(f"{model} is a run, which has its own data: leave out {changes[0]}")
    return path


def apart(run: Path, out: Path | None) -> None:
    """Refuse a folder for the output of a verb that reads a run if it is the run's own, which has its own result."""
    if out is not None and out.resolve() == run.resolve():
        raise ValueError(f"--out {out} is the run's own directory, with its own result: name another one.")
    check_new(out)


@door
def translate(
    run: Path,
    lines: Lines,
    *,
    beams: int | None = None,
    length_penalty: float | None = None,
    out: Path | None = None,
    letters: tuple[Path, ...] = (),
) -> Translations:
    """Translate lines from standard input with a run's model. The training data is not needed.

    Example:
      splitstep translate runs/mine < in.txt > out.txt
      echo "forty-two" | splitstep translate runs/numbers --beams 1

    Parameters:
    out DIR: Also write the result to DIR/result.json.
    """
    from ..support.auto_classes import lean
    from ..support.memory import uncollected

    with uncollected(), lean():
        from ..inference.translate import SearchOverrides, translate_run
        from ..training.progress import counting

    apart(run, out)
    wanted = SearchOverrides(beams, length_penalty)
    return written(translate_run(run, lines, wanted, counting("translated")), out)


@door
def generate(
    model: str,
    *,
    prompt: str = "The ",
    tokens: int = 200,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: list[str] | None = None,
    seed: int = 0,
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
    out: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Sample:
    """Continue a prompt with a language model. The text is printed as it comes.

    Example:
      splitstep generate runs/e8 --prompt "The "
      splitstep generate runs/e8 --prompt "The " --tokens 500 --temperature 0.8 --top-p 0.9 --seed 1
      splitstep generate runs/code --prompt "def " --top-k 40 --stop "def " --stop "class "
      splitstep generate model.gguf --prompt "A splitting method is" --tokens 30 --temperature 0

    Parameters:
    prompt TEXT: The text to continue.
    tokens N: The number of tokens to write.
    temperature X: The sampling temperature; 0 always takes the likeliest token.
    top_k N: Draw only from this many likeliest tokens.
    top_p X: Draw only from the likeliest tokens that together have this probability.
    stop WORD: End before this text. Several --stop end before the first.
    seed N: The seed for sampling.
    out DIR: Also write the result to DIR/result.json.
    """
    from ..inference.generate import Sampling
    from ..inference.generate import generate as write

    apart(Path(model), out)
    how = Sampling(temperature, top_k, top_p, seed)
    return written(write(model, prompt, tokens, how, stop or [], data, say or (lambda piece: None)), out)


@door
def predict(
    run: Path,
    lines: Lines,
    *,
    submission: Path | None = None,
    data: Path | None = None,
    out: Path | None = None,
    letters: tuple[Path, ...] = (),
) -> Predictions | Submission:
    """Label each line from standard input with a run's model: a text, two with a tab between them, or an image's path.

    Prints label and probability, or the number if the labels were numbers. The training data is not needed.

    Example:
      splitstep predict runs/mine < lines.txt
      ls photos/*.jpg | splitstep predict runs/photos --json
      splitstep predict runs/mrpc --submission glue-submission --data data

    Parameters:
    submission DIR: Of a GLUE task: write the official submission's files here.
    out DIR: Also write the result to DIR/result.json.
    """
    from ..inference.predict import predict_run, submit_run
    from ..training.progress import counting

    apart(run, out)
    if submission is not None:
        files = submit_run(run, submission, data, counting("predicted"))
        return written(Submission(str(run), [str(path) for path in files]), out)
    return written(predict_run(run, lines, counting("predicted")), out)


@dataclass(frozen=True)
class Submission:
    """The files of a submission to GLUE."""

    run: str
    written: list[str]

    def json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)
