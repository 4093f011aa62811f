"""Models of any kind, opened by one loader: as they are, or as schemes with fields."""

from pathlib import Path
from typing import Any

from torch import nn

from ..flows import Capture, Captured, Flow, StateName, state_name
from ..flows.examples import made_up
from ..flows.flow import Inputs, OwnFlow
from ..flows.foreign import ForeignFlow
from ..models import SplitstepModel
from .load import Opened, open_model

__all__ = ["Capture", "Captured", "Flow", "Opened", "StateName", "load", "open_model", "state_name"]


def load(given: str | Path | nn.Module | Opened, inputs: Inputs | None = None, trust_remote_code: bool = False) -> Flow:
    """A model as scheme, steps and fields: a run, a folder, a GGUF file, a name on the Hub, or a model that is open.

    Somebody else's model is run on example `inputs`, which are made up if none are given, to find its blocks; they are
    checked against the model itself. It is put into evaluation mode. `trust_remote_code` is as for `open_model`.
    """
    opened: Any = open_model(given, trust_remote_code) if isinstance(given, str | Path) else given
    model, name = (opened.model, opened.name) if isinstance(opened, Opened) else (opened, type(opened).__name__)
    if isinstance(model, SplitstepModel):
        return OwnFlow(model)
    model.eval()
    return ForeignFlow(model, made_up(model, name) if inputs is None else inputs, name)
