"""Pretrained models of any kind: opened by one loader."""

from .load import Opened, open_model

__all__ = ["Opened", "open_model"]
