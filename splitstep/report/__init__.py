"""Typed results as self-contained HTML pages, and as Markdown tables."""

from .compare import write_report
from .markdown import loss_table, markdown
from .page import MissingPackage

__all__ = ["MissingPackage", "loss_table", "markdown", "write_report"]
