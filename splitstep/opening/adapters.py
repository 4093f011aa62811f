"""Adapters of PEFT: which base model a folder of one names, and that model with the adapter's weights merged in."""

import warnings
from collections.abc import Mapping
from os.path import isdir  # which takes any name
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError, safe_open

from ..models.base import refuse_pickles
from ..support.documents import read_json
from ..support.words import first_line

ADAPTER, ADAPTED = "adapter_config.json", "adapter_model.safetensors"
MERGED = ("LORA", "ADALORA", "IA3", "LOHA", "LOKR", "OFT", "HRA", "VERA")  # kinds that are changes of weights
OTHERWISE = "merge it with peft (merge_and_unload) and name the folder that you save"
CODE = "megatron_config"  # an entry that names a module to import
MARK = "alora_invocation_tokens"  # an entry of adapters that begin to act somewhere in a text


class Adapter(NamedTuple):
    """A folder with an adapter's weights, and the base model that it names: a folder, or a name on the Hub."""

    folder: Path
    base: str
    revision: str | None

    def base_folder(self) -> Path | None:
        """The base model's folder: in the adapter's folder, beside it, where the program runs, or in the Hub's cache;
        None if it is not here."""
        places = (self.folder / self.base, self.folder.resolve().parent / self.base, Path(self.base))
        if here := next((place for place in places if isdir(place)), None):
            return here
        try:
            return Path(snapshot_download(self.base, revision=self.revision, local_files_only=True))
        except Exception:  # no name of the Hub, or none that was downloaded
            return None


def read_adapter(folder: Path) -> Adapter:
    """The adapter in a folder, unless it is of a kind that does not merge, or its weights are pickled or missing."""
    document = read_json(folder / ADAPTER, hint="it is damaged, so copy it again")
    kind, base, revision = (document.get(key) for key in ("peft_type", "base_model_name_or_path", "revision"))
    if kind not in MERGED or document.get(MARK):
        raise ValueError(f"{folder} holds an adapter of the kind {kind}, which has no weights to merge: {OTHERWISE}")
    if not isinstance(base, str) or not base:
        raise ValueError(f"{folder / ADAPTER} names no base model: write its folder as base_model_name_or_path")
    if document.get(CODE) is not None:
        raise ValueError(f"{folder / ADAPTER} has a {CODE}, which imports code: {OTHERWISE}")
    refuse_pickles(folder, "")
    return Adapter(folder, base, revision if isinstance(revision, str) else None)


def merged(model: Any, adapter: Adapter) -> Any:
    """The base model with the adapter's weights merged in, in float32: half precision would round most of them away."""
    try:
        import peft
    except ImportError as error:
        raise ValueError(f"it is an adapter of PEFT, which is another package: pip install peft ({error})") from None
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):  # which first draws the weights
            warnings.simplefilter("ignore")
            adapted = peft.PeftModel.from_pretrained(model.float(), adapter.folder, torch_device="cpu")
            check_weights(adapter, adapted, peft.get_peft_model_state_dict(adapted, save_embedding_layers=False))
            return adapted.merge_and_unload().requires_grad_(True)
    except SafetensorError:
        raise
    except Exception as error:  # what a folder holds can break its reader in any way
        raise ValueError(f"it does not fit its base {adapter.base} ({first_line(error)}): {OTHERWISE}") from None


def check_weights(adapter: Adapter, adapted: Any, wanted: Mapping[str, Any]) -> None:
    """Refuse an adapter some of whose weights are missing, or lead nowhere in this base model."""
    unknown = adapted.load_adapter(adapter.folder, "default", torch_device="cpu").unexpected_keys
    with safe_open(adapter.folder / ADAPTED, "pt") as file:
        lacking = sorted(wanted.keys() - set(file.keys()))
    if unknown or lacking:
        raise ValueError(f"the base has no {unknown[0]}" if unknown else f"{ADAPTED} lacks {lacking[0]}")
