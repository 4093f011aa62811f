"""Typed results as self-contained HTML pages, and as Markdown tables."""

from .compare import write_report
from .markdown import markdown
from .page import MissingPackage

__all__ = ["MissingPackage", "markdown", "write_report"]
