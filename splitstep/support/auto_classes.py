"""transformers without waiting or noise: model types that its Auto classes find by themselves, an import without
extras, and readers that print nothing.

Each type is registered as a name. The module behind it is imported when a config of that type is first asked for; that
import registers the real classes, of configs and of models, in place of the names.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, final

CONFIGS = "transformers.models.auto.configuration_auto"


@final
class ConfigByName:
    """A config class that is imported when it is first used."""

    def __init__(self, module: str, name: str) -> None:
        self.__name__, self._from = name, module

    def real(self) -> Any:
        return getattr(import_module(self._from), self.__name__)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a protocol such as copying, which must not import anything
            raise AttributeError(name)
        return getattr(self.real(), name)

    def __call__(self, *args: Any, **entries: Any) -> Any:
        return self.real()(*args, **entries)


@final
class AfterImport(MetaPathFinder):
    """Register the names right after the module of transformers that holds the table of configs is imported."""

    def __init__(self, module: str, types: Mapping[str, str]) -> None:
        self.module, self.types = module, types

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != CONFIGS:
            return None
        with suppress(ValueError):  # another thread was quicker
            sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self.extend(spec.loader)
        return spec

    def extend(self, loader: Any) -> None:
        """Let the loader of one module register the names after its work."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            fill(module, self.module, self.types)

        loader.exec_module = exec_module


def fill(table: Any, module: str, types: Mapping[str, str]) -> None:
    for model_type, name in types.items():
        if model_type not in table.CONFIG_MAPPING:
            table.CONFIG_MAPPING.register(model_type, ConfigByName(module, name))


def register_by_name(module: str, types: Mapping[str, str]) -> None:
    """Register model types, each with the name of its config class in `module`: now, or when transformers' table of
    configs is imported."""
    if CONFIGS in sys.modules:
        fill(import_module(CONFIGS), module, types)  # waits, if another thread imports it at this moment
    else:
        sys.meta_path.insert(0, AfterImport(module, types))


@contextmanager
def lean() -> Iterator[None]:
    """transformers without scikit-learn and scipy, which it imports if they are installed, for assisted generation and
    object detection. Programs that do neither save a second."""
    utils: Any = import_module("transformers.utils")
    known = {name: getattr(utils, name) for name in ("is_sklearn_available", "is_scipy_available")}
    for name in known:
        setattr(utils, name, lambda: False)
    try:
        yield
    finally:
        for name, function in known.items():
            setattr(utils, name, function)


@contextmanager
def silent() -> Iterator[None]:
    """Without the progress bars that transformers draws, and the tables and warnings that it prints while it loads and
    saves."""
    logging: Any = import_module("transformers.utils.logging")
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
