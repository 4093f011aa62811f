"""Typed results as self-contained HTML pages."""

from .compare import write_report
from .page import MissingPackage

__all__ = ["MissingPackage", "write_report"]
