"""The one loader: a run of ours, a model's or an adapter's folder, a GGUF file or a name on the Hub becomes a model
and its tokenizer.

Weights come from safetensors and GGUF only, never from pickles. Code that comes with a model runs only if you say so.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import transformers
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GgufConfig,
    PreTrainedModel,
)
from transformers.initialization import no_init_weights
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.image_processing_auto import AutoImageProcessor  # at the top it asks for torchvision

from ..models import SplitstepConfig, SplitstepModel
from ..models.base import refuse_not_finite, refuse_pickles
from ..models.block import BlockConfig, SplitstepBlockForCausalLM, Untrusted
from ..models.config import kind_of
from ..shape import DEEPEST
from ..support.auto_classes import silent
from ..support.documents import flat, read_json
from ..support.gguf_file import gguf_source, gguf_tokenizer, is_gguf
from ..support.words import first_line
from ..text.tokenizers import TOKENIZERS
from ..training.directory import RunDirectory
from .adapters import ADAPTED, ADAPTER, OTHERWISE, Adapter, merged, read_adapter

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
# of a model on the Hub; pickles never
WANTED = ["*.json", "*.txt", "*.model", "*.jinja", "model*.safetensors", ADAPTED]
WHAT = "a run of splitstep, a model's folder, a GGUF file, or a model's name on the Hub"
CONFIG, MODULES = "config.json", "modules.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
REPEATED = re.compile("(layers?|blocks?|experts|depth)$")  # entries that say how often something is built
POINTER = b"version https://git-lfs"  # how the small files begin that stand for large ones after a clone without LFS
CODE = (
    "{what}, which comes with Python code of its own: read that code, and if you trust it, add --trust-remote-code, "
    "or in Python trust_remote_code=True"
)
DAMAGED = "it is damaged, so copy it again"
SAVE = "save_pretrained writes a whole model"


class Opened(NamedTuple):
    """A model in evaluation mode with what belongs to it: a tokenizer, or an image processor, which needs Pillow."""

    model: Any
    tokenizer: Any
    processor: Any
    name: str  # as it was given
    source: Literal["run", "folder", "gguf", "hub"]

    def needs_tokenizer(self) -> Any:
        """The tokenizer, or an error if there is none."""
        if self.tokenizer is None:
            raise ValueError(f"{self.name} has no tokenizer: save one beside the model (tokenizer.save_pretrained)")
        return self.tokenizer


def open_model(name: str | Path, trust_remote_code: bool = False) -> Opened:
    """Open a run, a model's folder, a GGUF file, or a model on the Hub.

    `trust_remote_code` lets Python code run that comes with the model; without it, none does.
    """
    with silent():
        opened = opened_from(Path(name).expanduser(), name, trust_remote_code)
    if not isinstance(opened.model, SplitstepModel):  # ours are checked as they are read
        refuse_not_finite(opened.model.state_dict(), name)
    return opened


def opened_from(place: Path, name: str | Path, trust_remote_code: bool) -> Opened:
    """The model at a place, or else of a name on the Hub."""
    if place.suffix == ".gguf":
        return Opened(*read_gguf(place), None, str(name), "gguf")
    if place.is_dir():
        run = RunDirectory(place)
        folder = run.finished_model() if run.is_run() else place
        return open_folder(folder, str(name), "run" if run.is_run() else "folder", trust_remote_code)
    if place.exists() or not HUB_NAME.fullmatch(str(name)):
        raise ValueError(f"{name} is {'a file' if place.exists() else 'not there'}: name {WHAT}")
    return open_folder(download(str(name), trust_remote_code), str(name), "hub", trust_remote_code)


def download(name: str, trust_remote_code: bool, revision: str | None = None) -> Path:
    """The folder into which the Hub's model of this name is downloaded, unless it is there already."""
    try:
        wanted = [*WANTED, "*.py"] if trust_remote_code else WANTED
        return Path(snapshot_download(name, revision=revision, allow_patterns=wanted, ignore_patterns="*/*"))
    except Exception as error:  # connections fail in many ways
        raise ValueError(
            f"there is no folder {name}, and no model of that name comes from the Hub: check the spelling and the "
            f"connection, or name {WHAT} ({type(error).__name__})"
        ) from None


def open_folder(
    folder: Path, name: str, source: Literal["run", "folder", "hub"], trust_remote_code: bool = False
) -> Opened:
    """The model in a folder: that of sentence-transformers inside of it, an adapter's base with the adapter merged."""
    folder = transformer_in(folder)
    if not (folder / ADAPTER).is_file():
        return open_whole(folder, name, source, trust_remote_code)
    adapter = read_adapter(folder)
    base = open_whole(base_of(adapter, source, trust_remote_code), name, source, trust_remote_code)
    check_part(folder / ADAPTED, 1)
    with opens(folder):
        refuse_not_finite(load_file(folder / ADAPTED), ADAPTED)
        tokenizer = read_tokenizer(folder, trust_remote_code) or base.tokenizer
        return base._replace(model=merged(base.model, adapter).eval(), tokenizer=tokenizer)


def base_of(adapter: Adapter, source: str, trust_remote_code: bool) -> Path:
    """The folder of an adapter's base model. It comes from the Hub only if the adapter did."""
    if here := adapter.base_folder():
        return here
    if source != "hub" or not HUB_NAME.fullmatch(adapter.base):
        raise ValueError(
            f"{adapter.folder} is an adapter of {adapter.base}, which is missing: put that model's folder beside it, "
            f"or get it from the Hub once (hf download {adapter.base})"
        )
    return download(adapter.base, trust_remote_code, adapter.revision)


def transformer_in(folder: Path) -> Path:
    """The folder itself or, if it is one of sentence-transformers, that of the Transformer among its modules."""
    if not (folder / MODULES).is_file():
        return folder
    rows = read_json(folder / MODULES, "list", hint=DAMAGED)
    kinds = {str(row.get("type")).rpartition(".")[2]: row.get("path") for row in rows if isinstance(row, dict)}
    path = kinds.get("Transformer")
    if not isinstance(path, str) or Path(path).is_absolute() or ".." in Path(path).parts:
        raise ValueError(
            f"{folder / MODULES} names no Transformer inside the folder, but {', '.join(kinds) or 'nothing'}: name "
            f"the folder of one, with its {CONFIG}"
        )
    return folder / path


def open_whole(
    folder: Path, name: str, source: Literal["run", "folder", "hub"], trust_remote_code: bool = False
) -> Opened:
    """The model in a folder that holds all of its weights."""
    document = read_config(folder)
    check_code(folder, document, trust_remote_code)
    check_weights(folder, document)
    with opens(folder):
        model, processor = read_model(folder, trust_remote_code), read_processor(folder, trust_remote_code)
        return Opened(model.eval(), read_tokenizer(folder, trust_remote_code), processor, name, source)


def read_tokenizer(folder: Path, trust_remote_code: bool) -> Any:
    """The tokenizer in a folder, if there is one."""
    reads = any((folder / file).is_file() for file in TOKENIZERS)
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code) if reads else None


@contextmanager
def opens(folder: Path) -> Iterator[None]:
    """Make one line of whatever goes wrong while a folder is read."""
    try:
        yield
    except Exception as error:  # what a folder holds can break its reader in any way
        if isinstance(error, Untrusted):
            raise
        if "trust_remote_code" in str(error):
            raise ValueError(CODE.format(what=f"{folder} has a tokenizer")) from None
        if isinstance(error, SafetensorError):
            raise ValueError(
                f"{folder} has a damaged weight file, perhaps half of it: download it again ({first_line(error)})"
            ) from None
        raise ValueError(f"{folder} does not open: {explained(error)}") from None


def explained(error: Exception) -> str:
    """What an error of transformers means; ours say it themselves."""
    if "ignore_mismatched_sizes" in str(error):
        return f"its weights have other shapes than {CONFIG} says; {DAMAGED}"
    return first_line(error) if type(error) is ValueError else f"{DAMAGED} ({first_line(error)})"


def read_model(folder: Path, trust_remote_code: bool) -> Any:
    """The model, with all of its weights from the files: one that is missing there would be drawn at random."""
    config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
    remote = {"trust_remote_code": True} if trust_remote_code else {}
    model, info = class_of(config, trust_remote_code).from_pretrained(
        folder, config=config, use_safetensors=True, output_loading_info=True, **remote
    )
    if missing := sorted(info["missing_keys"]):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"the files lack the weights {missing[0]}{more}, which a {type(model).__name__} has")
    return model


def class_of(config: Any, trust_remote_code: bool) -> Any:
    """The class that the config names as its architecture: ours, one of transformers, or one that it brings."""
    name = (config.architectures or [""])[0]
    if isinstance(config, SplitstepConfig):
        made = {made.__name__: made for made in kind_of(config).made_by().values()}
        return made.get(name, kind_of(config).model)
    if isinstance(config, BlockConfig):
        return SplitstepBlockForCausalLM
    if trust_remote_code and getattr(config, "auto_map", None):
        brought = {ref.split(".")[-1]: auto for auto, ref in config.auto_map.items() if isinstance(ref, str)}
        return getattr(transformers, brought.get(name, "AutoModel"), AutoModel)
    found = getattr(transformers, name, None)
    return found if isinstance(found, type) and issubclass(found, PreTrainedModel) else AutoModel


def read_processor(folder: Path, trust_remote_code: bool) -> Any:
    """The image processor, by the backend that needs no torchvision."""
    if not (folder / "preprocessor_config.json").is_file():
        return None
    try:
        return AutoImageProcessor.from_pretrained(folder, backend="pil", trust_remote_code=trust_remote_code)
    except ImportError:
        return None


def read_gguf(file: Path) -> tuple[Any, Any]:
    """The model and the tokenizer in a GGUF file."""
    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    if not is_gguf(file):
        raise ValueError(f"{file} is not a GGUF file, in spite of its name: it does not begin with GGUF")
    try:
        with gguf_source(file) as where:
            config = AutoConfig.from_pretrained(**where)
            auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
            packed = auto.from_pretrained(**where, config=config, quantization_config=GgufConfig(dequantize=True))
            tokenizer = gguf_tokenizer(file, where)
    except ImportError as error:
        raise ValueError(f"{file} is a GGUF file, which needs another package: pip install gguf ({error})") from None
    except Exception as error:  # the content of the file can break its reader in any way
        raise ValueError(
            f"{file} does not open: it is damaged, or of a kind unknown to transformers ({first_line(error)})"
        ) from None
    return rebuilt(packed, file), tokenizer


def rebuilt(packed: Any, file: Path) -> Any:
    """The same weights in a model of a clean config: transformers refuses to save what it has read from a GGUF file."""
    config = packed.config
    vars(config).pop("quantization_config", None)
    with no_init_weights():
        model = type(packed)._from_config(config, dtype=packed.dtype)
    model.load_state_dict(packed.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = packed.generation_config
    model.name_or_path = config.name_or_path = str(file)
    return model.eval()


def read_config(folder: Path) -> dict[str, Any]:
    """The model's config.json."""
    if (folder / ADAPTER).is_file():
        raise ValueError(f"{folder} is an adapter ({ADAPTER}), not the whole model of another one: {OTHERWISE}")
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{folder} is not a model: it has no {CONFIG}{remedy(folder)}")
    document = read_json(folder / CONFIG, hint=DAMAGED)
    if not isinstance(document.get("model_type"), str):
        raise ValueError(f"{folder / CONFIG} is not the config of a model: it has no model_type")
    for name, value in flat(document):
        if REPEATED.search(name) and isinstance(value, int) and value > DEEPEST:
            raise ValueError(f"{folder / CONFIG} says {name}={value}, and at most {DEEPEST:,} are read: {DAMAGED}")
    return document


def remedy(folder: Path) -> str:
    """What to do about a folder without config.json, judged by what it does hold."""
    if found := sorted(folder.glob("*.gguf")):
        return f"; to open its GGUF file, name that: {found[0]}"
    if any(folder.glob("*.safetensors")):
        return "; copy the whole folder, not the weights alone"
    return f"; {SAVE}"


def check_code(folder: Path, document: dict[str, Any], trusted: bool) -> None:
    """Refuse a type of model for which there is no installed class, unless its own code may run."""
    model_type = document["model_type"]
    if model_type in CONFIG_MAPPING or (trusted and document.get("auto_map")):
        return
    if document.get("auto_map"):
        raise ValueError(CODE.format(what=f"{folder} is a {model_type} model"))
    raise ValueError(
        f"{folder} is a {model_type} model, a type that neither splitstep nor the installed transformers knows: try a "
        "newer one (pip install -U transformers)"
    )


def check_weights(folder: Path, document: dict[str, Any]) -> None:
    """Refuse weights that are pickled, missing, or only partly there."""
    refuse_pickles(folder, "")
    if (named := document.get("transformers_weights")) is not None:
        raise ValueError(f"{folder / CONFIG} names weights of its own, {named!r}: {SAVE} as {WEIGHTS}")
    if (folder / WEIGHTS).is_file():
        parts = [folder / WEIGHTS]
    elif (folder / INDEX).is_file():
        parts = listed(folder)
    else:
        raise ValueError(f"{folder} has no weights: {WEIGHTS} is missing; {SAVE}")
    for part in parts:
        check_part(part, len(parts))


def listed(folder: Path) -> list[Path]:
    """The files that the index of a model in several parts names."""
    names = read_json(folder / INDEX, hint=DAMAGED).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise ValueError(f"{folder / INDEX} is damaged: it has no weight_map; copy it again")
    if outside := [name for name in names.values() if Path(name).name != name or not name.endswith(".safetensors")]:
        raise ValueError(f"{folder / INDEX} names {outside[0]!r}, which is not a safetensors file of this folder")
    return sorted({folder / name for name in names.values()})


def check_part(part: Path, count: int) -> None:
    if not part.is_file():
        whole = f"one of {count} parts, is missing" if count > 1 else "is missing"
        raise ValueError(f"{part.parent} is only half here: {part.name}, {whole}; copy or download it again")
    with part.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise ValueError(f"{part} is a pointer of Git LFS, not the weights: run `git lfs pull` in {part.parent}")
