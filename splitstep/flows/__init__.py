"""Any Transformer as stacks of steps and fields: our own models as they are, others by watching them run."""

from .capture import Capture, Captured
from .flow import Flow, StateName, state_name
from .keys import Key

__all__ = ["Capture", "Captured", "Flow", "Key", "StateName", "state_name"]
