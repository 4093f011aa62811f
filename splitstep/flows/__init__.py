"""Any Transformer as stacks of steps and fields: our own models as they are, others by watching them run."""

from .flow import Capture, Captured, Flow
from .keys import Key, StateName, state_name

__all__ = ["Capture", "Captured", "Flow", "Key", "StateName", "state_name"]
