"""Pre-trained networks to fine-tune: found by what `--start` names, read and checked before anything is run."""

import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...experiments.study import STUDIES
from ...models import KINDS, SplitstepConfig
from ...recipe import OURS
from ...schemes import label
from ...support.auto_classes import silent
from ...support.documents import AGAIN, read_json, readable
from ...support.typed import Figure
from ...support.words import split_list
from ...tasks.masked.mlm import Mlm
from ...text.tokenizers import saved_tokenizer
from ...training.directory import RunDirectory
from ...training.networks import FREE, model_folder

FORM = "--start NAME=RUN,NAME=RUN or --start DIR of a comparison"
OF_DATA = frozenset({"vocab_size", "max_positions", "token_types"})  # the start's tokenizer decides these
STARTED = frozenset({"init", "init_std", "letters"})  # free when weights are loaded, but not from scratch


class Body(NamedTuple):
    """A pre-trained network: its name, scheme and seed, where it is, and its figures on held-out text if they are
    known. A model folder without a run has no known seed; then it is its place among those of its name."""

    name: str
    scheme: str
    seed: int
    path: str
    seed_known: bool = True
    held_out: dict[str, Figure] | None = None


def read_starts(text: str) -> dict[str, list[str]]:
    """The paths of each name. "lie=a+b" has two, "lie=runs/lie-*" all that match, and a comparison's folder alone has
    its finished runs, by scheme."""
    found: dict[str, list[str]] = {}
    for part in split_list(text):
        name, equals, paths = (piece.strip() for piece in part.partition("="))
        given = {name: [path for one in paths.split("+") for path in matching(one)]} if equals else runs_compared(part)
        for key, own in given.items():
            if not key or not all(own):
                raise ValueError(f"--start {part!r} lacks a name or a path: write {FORM}")
            if key in found:
                raise ValueError(f"--start names {key} twice: join its paths by +, as in {key}=runs/a+runs/b")
            found[key] = own
    return found


def matching(path: str) -> list[str]:
    """The path, or those that its wildcards match."""
    if not glob.has_magic(path) or Path(path).exists():
        return [path.strip()]
    found = sorted(glob.glob(path.strip()))
    if not found:
        raise ValueError(f"--start: nothing matches {path}: check the path")
    return found


def runs_compared(path: str) -> dict[str, list[str]]:
    """The finished runs of a comparison, by scheme and arm; of a sweep, those of the settings that were chosen."""
    if not path or not (Path(path) / "runs").is_dir():
        raise ValueError(f"--start {path!r} is neither NAME=RUN nor a comparison's directory: write {FORM}")
    found: dict[str, list[str]] = {}
    for name, run in chosen_runs(Path(path)):
        found.setdefault(name, []).append(str(run))
    if not found:
        raise ValueError(f"--start {path}: none of its runs has finished: start the comparison again first")
    return found


def chosen_runs(folder: Path) -> Iterator[tuple[str, Path]]:
    """The name and the folder of each finished run. A comparison that has not ended yet has no result to choose by."""
    file = folder / "result.json"
    if file.is_file():
        result = STUDIES["compare"].read(read_json(file, "anything"), str(file))
        trials = [(row.name, trial) for row in result.rows for trial in result.chosen(row)]
        yield from ((name, folder / trial.folder) for name, trial in trials if trial.status == "finished")
        return
    for path in sorted((folder / "runs").glob("*/recipe.yaml")):
        result = RunDirectory(path.parent).result()
        if result is not None and result.status == "finished":
            yield label(result.scheme.notation), path.parent


def find_bodies(starts: Mapping[str, Sequence[str]]) -> tuple[Body, ...]:
    """Every body in order, read; refuses those that cannot stand in one table."""
    if not starts:
        raise ValueError(f"there is nothing to fine-tune: write {FORM}")
    bodies = list[Body]()
    for name, paths in starts.items():
        for place, path in enumerate(paths):
            body = body_of(name, path, place)
            for other in (one for one in bodies if one.name == name):
                check_alike(other, body)
            bodies.append(body)
    check_tokenizers(bodies)
    return tuple(bodies)


def check_alike(one: Body, other: Body) -> None:
    """Refuse two bodies of a name that differ in more than the seed, which is the unit of every interval."""
    both = f"--start {one.name}: {one.path} and {other.path}"
    if (one.scheme, shape_of(one)) != (other.scheme, shape_of(other)):
        raise ValueError(f"{both} differ in scheme or shape: give each a name of its own")
    if one.seed == other.seed:
        raise ValueError(f"{both} both have seed {one.seed}: name one of them, or pre-train with another train.seed")


def config_of(path: str) -> SplitstepConfig:
    """The config of the model at a path, which splitstep must have trained."""
    from transformers import AutoConfig

    folder = model_folder(path)
    with silent(), readable(f"start: the model in {folder}", AGAIN):
        config = AutoConfig.from_pretrained(folder)
    if not isinstance(config, SplitstepConfig):
        raise ValueError(f"start: {path} is a {config.model_type} model: name one that splitstep trained")
    return config


def shape_of(body: Body) -> dict[str, Any]:
    """What a recipe's `model` needs for a network of a body's shape: all that is not a classifier's default."""
    kind, config = KINDS["sequence"].config, config_of(body.path)
    default, known = kind(), config.entries().keys() - OURS - OF_DATA - (FREE - STARTED)
    found = {name: getattr(config, name) for name in kind.entries() if name in known}
    return {name: value for name, value in found.items() if value != getattr(default, name)}


def body_of(name: str, path: str, place: int) -> Body:
    """The body at a path: of a run, with its seed and its held-out figures."""
    given, scheme = Path(path), str(config_of(path).scheme)
    run = RunDirectory(given.parent if given.name == "model" else given)
    result = run.result() if run.recipe_file.is_file() else None
    if result is None:
        return Body(name, scheme, place, path, seed_known=False)
    return Body(name, scheme, result.seed, path, held_out=result.test if result.task == Mlm.name else None)


def check_tokenizers(bodies: Sequence[Body]) -> None:
    """Refuse bodies without a tokenizer, and those with different ones."""
    from tokenizers import Tokenizer

    texts: dict[str, Body] = {}
    for body in bodies:
        texts.setdefault(saved_tokenizer(body.path).text, body)
    [(known, first), *others] = [(Tokenizer.from_str(text).get_vocab(), body) for text, body in texts.items()]
    for vocabulary, body in others:
        if vocabulary != known:
            raise ValueError(
                f"--start: {first.path} and {body.path} have different tokens: pre-train both on the same text"
            )
