"""What must not change: each section is a mapping from the names of its entries to functions that make their texts.

Only doors that users have are opened here: the command line, `task`, the kinds of models and recipes by name.
"""

import hashlib
import io
import json
import re
from collections.abc import Callable, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from golden_data import OWN, PUBLISHED, data_folder, own_data
from safetensors.torch import load_file
from tiny import SHAPES, inputs, labels, tiny
from torch import Tensor

# The doors of the package: what moves is mended here.
from splitstep.cli import main
from splitstep.models import KINDS
from splitstep.recipes import recipe_names
from splitstep.schemes import SCHEMES
from splitstep.tasks import task
from splitstep.training import load_recipe

ROOT = Path(__file__).parents[2]
Entries = Mapping[str, Callable[[], str]]
VERBS = (
    "schemes", "recipes", "tasks", "train", "evaluate", "translate", "generate", "predict", "distil", "compare",
    "compare glue", "compare distil", "ablate", "converge", "inspect", "approximate", "report",
)  # fmt: skip
PLAIN = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb", "SPLITSTEP_DATA": "data"}


def sections() -> dict[str, Callable[[], Entries]]:
    """All sections by name, the cheap ones first."""
    return {
        "help": help_pages,
        "lists": lists,
        "pages": pages,
        "together": together,
        "recipes": recipes,
        "configs": configs,
        "models": models,
        "tasks": own_tasks,
        "published": published_tasks,
        "runs": runs,
    }


def said(*words: str) -> str:
    """What a command prints, 120 columns wide and without colour; an error, or another exit code than 0, is part of
    it."""
    out, err = io.StringIO(), io.StringIO()
    with patch.dict("os.environ", PLAIN), redirect_stdout(out), redirect_stderr(err):
        code = main(list(words))
    return out.getvalue() if code == 0 else f"{out.getvalue()}exit code {code}: {err.getvalue()}"


def help_pages() -> Entries:
    """What --help prints for each verb."""
    return {verb or "splitstep": partial(said, *verb.split(), "--help") for verb in ("", *VERBS)}


def lists() -> Entries:
    """What the listing verbs print."""
    forms = {"text": [], "json": ["--json"], "markdown": ["--markdown"]}
    listed = {f"{verb} {form}": (verb, *words) for verb in ("recipes", "tasks") for form, words in forms.items()}
    listed |= {"schemes text": ("schemes",), "schemes json": ("schemes", "--json")}
    listed["schemes measured"] = ("schemes", "lie", "b:F/2 a:A b:F/2 @midpoint", "D/2@exact A+F D/2@exact", "--measure")
    return {name: partial(said, *words) for name, words in listed.items()} | {"schemes svg": picture}


def picture() -> str:
    with TemporaryDirectory() as folder:
        said("schemes", *SCHEMES, "--svg", f"{folder}/picture.svg")
        return Path(folder, "picture.svg").read_text(encoding="utf-8")


def stored() -> list[str]:
    """The folders of the stored results of studies."""
    files = sorted(ROOT.glob("results/**/result.json"))
    return [str(file.parent.relative_to(ROOT)) for file in files if "study" in json.loads(file.read_bytes())]


def pages() -> Entries:
    """The page, the terminal text, the Markdown and the JSON of every stored result."""
    found = dict[str, Callable[[], str]]()
    for folder in stored():
        for form in ("html", "terminal", "json"):
            found[f"{folder} {form}"] = lambda folder=folder, form=form: reported(folder)[form]
        found[f"{folder} markdown"] = partial(said_at_root, "report", folder, "--markdown")
    return found


@cache
def reported(folder: str) -> dict[str, str]:
    """What `splitstep report FOLDER` writes and prints."""
    with TemporaryDirectory() as out:
        terminal = said("report", str(ROOT / folder), "--out", out)
        files = {form: Path(out, name) for form, name in (("html", "report.html"), ("json", "result.json"))}
        return {"terminal": terminal} | {
            form: file.read_text(encoding="utf-8") if file.exists() else "" for form, file in files.items()
        }


def said_at_root(*words: str) -> str:
    with chdir(ROOT):
        return said(*words)


def together() -> Entries:
    """The results that the docs show together, or in another form than usual, by the words of their commands."""
    docs = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    texts = [" ".join(file.read_text(encoding="utf-8").split()) for file in docs]
    found = {words for text in texts for words in re.findall(r"`splitstep report (results/[^`]+)`", text)}
    more = [words for words in sorted(found) if words.removesuffix(" --markdown").count(" ")]
    return {words: partial(said_at_root, "report", *words.split()) for words in more}


def recipes() -> Entries:
    """Each recipe of the package, with all defaults."""
    return {name: partial(resolved, name) for name in recipe_names()}


MISSING = {"translate": ["data.train=my.en,my.de"]}  # what a recipe leaves to its user


def resolved(name: str) -> str:
    return as_json(load_recipe(name, MISSING.get(name, [])).document())


CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "diffusion": ("causal", {"scheme": "D/2@exact A+F D/2@exact", "letters": {"D": {"alpha": 0.3}}}),
    "fixed-ends": ("image", {"scheme": "A F D", "letters": {"D": {"alpha": 0.2, "boundary": "fixed"}}}),
    "stabiliser": ("sequence", {"scheme": "A F S", "letters": {"S": {"gamma": 0.5}}}),
    "rotary": ("causal", {"positions": "rotary", "letters": {"A": {"bias_start": 0.5}}, "kv_heads": 2, "head_size": 8}),
    "sandwich": ("causal", {"norm_at": "both", "norm": "rms", "norm_affine": False}),
    "activations": ("masked", {"scheme": "macaron", "activation": {"F": "gelu", "F0": "relu", "F1": "gelu"}}),
    "inner-widths": ("masked", {"scheme": "macaron", "ffn": [8, 16, 24, 12]}),
    "smooth": ("sequence", {"init_modes": 2, "substeps": 2, "step": 0.5}),
    "both-stacks": ("translation", {
        "scheme": "A F D@exact S", "letters": {"D": {"boundary": "fixed"}, "S": {"gamma": 0.3}}, "norm_at": "both",
    }),
    "local": ("sequence", {
        "scheme": "macaron", "positions": "rotary", "letters": {"A": {"bias_start": 1.0}}, "norm_at": "both",
    }),
    "explicit": ("vectors", {"scheme": "D/2 A F D/2", "letters": {"D": {"alpha": 0.4}}, "norm_at": "both"}),
}  # fmt: skip  # entries that letters and norms read


def shapes() -> dict[str, tuple[str, dict[str, Any]]]:
    """The kinds of models with every row of schemes that they take, and with the entries above."""
    rows = {f"{kind} {row}": (kind, {"scheme": row}) for kind in SHAPES for row in SCHEMES}
    return rows | {f"{kind} {name}": (kind, entries) for name, (kind, entries) in CONFIGS.items()}


def configs() -> Entries:
    """config.json of each."""
    return {name: partial(config_json, kind, entries) for name, (kind, entries) in shapes().items()}


def config_json(kind: str, entries: dict[str, Any]) -> str:
    try:
        made = KINDS[kind].config(**(SHAPES[kind] | entries))
    except ValueError as error:  # a row that the kind does not take
        return str(error)
    return as_json({name: value for name, value in made.to_dict().items() if name != "transformers_version"})


def models() -> Entries:
    """The weights of each tiny model, and what it answers."""
    return {name: partial(answers, kind, entries) for name, (kind, entries) in shapes().items()}


def answers(kind: str, entries: dict[str, Any]) -> str:
    try:
        return answers_of(kind, tiny(kind, **entries))
    except ValueError as error:
        return str(error)


def answers_of(kind: str, model: Any) -> str:
    """The weights, and the answer to a batch."""
    with torch.no_grad():
        output = model(**inputs(kind), labels=labels(kind))
    return f"{tensors(dict(model.state_dict()))}{tensors({'loss': output.loss, 'logits': output.logits})}"


def own_tasks() -> Entries:
    """Tasks over what the package makes, and over made-up files."""
    return {name: partial(over_own_data, name) for name in OWN}


def over_own_data(name: str) -> str:
    """In a folder of their own, whose path does not matter."""
    with own_data() as data:
        return task_text(*OWN[name], data)


def published_tasks() -> Entries:
    """Tasks over published files; none without the folder of data."""
    data = data_folder()
    return {} if data is None else {name: partial(over_data, name, data) for name in PUBLISHED}


def over_data(name: str, data: Path) -> str:
    """With an empty cache."""
    with TemporaryDirectory() as cache, patch.dict("os.environ", {"SPLITSTEP_CACHE": cache}):
        return task_text(*PUBLISHED[name], data)


def task_text(name: str, options: dict[str, object], data: Path) -> str:
    """What a task says about its data, three training batches, one held-out batch, and what it saves with a model."""
    made = task(name, options, data)
    facts = {
        "describe": made.describe(), "shape": made.shape, "length": made.length, "splits": made.splits,
        "tests": made.tests, "metric": made.metric, "labels": made.labels, "remarks": made.remarks(),
    }  # fmt: skip
    size = 512 if made.model == "translation" else 4
    batches = {f"train {step}": made.batch(3, step, size) for step in (0, 1, 7)}
    batches["valid"] = next(iter(made.batches("valid", size)))
    counts = {where: [made.items(batch), made.tokens(batch)] for where, batch in batches.items()}
    shown = [f"{where}\n{tensors(batch)}" for where, batch in batches.items()]
    with TemporaryDirectory() as folder:
        made.save_with(Path(folder))
        saved = {
            str(file.relative_to(folder)): digest(file.read_bytes())
            for file in sorted(Path(folder).rglob("*"))
            if file.is_file()
        }
    return "\n".join([as_json(facts), as_json(counts), *shown, as_json(saved)]).replace(str(data), "DATA")


RUNS = {
    "language": ["text", "data.path=DATA/book.txt", "data.length=32", "model.layers=2", "model.width=32",
                 "model.heads=4", "model.ffn=64", "train.batch=8"],
    "translation": ["numbers", "data.train=700", "data.valid=40", "data.test=40", "data.highest=9999",
                    "model.layers=1", "model.decoder_layers=1", "model.width=32", "model.ffn=64", "train.batch=256",
                    "train.average=2", "train.average_every=5"],
    "digits": ["digits", "scheme=strang-midpoint", "train.batch=16", "train.accumulate=2"],
    "masked": ["mlm", "data.train=DATA/book.txt", "data.vocab_size=300", "data.length=32", "model.layers=2",
               "model.width=32", "model.heads=4", "model.ffn=64", "train.batch=8", "scheme=macaron-postnorm"],
}  # fmt: skip
TIMES = ("seconds", "tokens_per_second", "commit", "versions", "device", "command", "date", "time", "eta")


def runs() -> Entries:
    """Trainings of ten updates: the curve of losses, the figures and the weights."""
    return {name: partial(trained, name) for name in RUNS}


def trained(name: str) -> str:
    with own_data() as data:
        out = data / "run"
        words = [word.replace("DATA", str(data)) for word in RUNS[name]]
        steps = ["train.steps=10", "train.warmup=3", "train.log_every=1", "train.evaluate_every=5"]
        said("train", *words, *steps, "--out", str(out))
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        result = json.loads((out / "result.json").read_text(encoding="utf-8"))
        figures = {key: result[key] for key in ("status", "steps", "tokens", "cost", "shape", "kept", "valid", "test")}
        curve = "\n".join(json.dumps(without_times(line), sort_keys=True) for line in lines)
        return f"{as_json(figures)}{curve}\n{tensors(load_file(out / 'model' / 'model.safetensors'))}"


def without_times(value: Any) -> Any:
    """The value without entries that differ from one run to the next."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def tensors(named: Mapping[str, Tensor]) -> str:
    """A line for each tensor: its name, type, shape, first values, and a hash of all."""
    lines = []
    for name, tensor in sorted(named.items()):
        raw = tensor.detach().contiguous()
        first = raw.flatten()[:6].tolist()
        content = digest(raw.flatten().view(torch.uint8).numpy().tobytes())
        lines.append(f"{name} {raw.dtype} {list(raw.shape)} {first} {content[:16]}\n")
    return "".join(lines)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=str) + "\n"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
