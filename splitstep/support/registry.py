"""Things by name: this package's own, and those that other packages add through entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, final

from .typed import nearest

T = TypeVar("T")


@final
class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to things of one sort.

    Another package adds one under the entry-point group `splitstep.<sort>s`. Its name is listed at once; the package
    is imported when that name is asked for, so one that is broken hurts nobody else. Own names cannot be replaced.
    `accept` makes a thing of what the package gives, or refuses it with a `ValueError`.
    """

    def __init__(
        self, sort: str, own: Mapping[str, T] | None = None, plural: str = "", accept: Callable[[Any], T] = lambda v: v
    ) -> None:
        self.sort, self.plural, self.accept = sort, plural or f"{sort}s", accept
        self.own: dict[str, T] = dict(own or {})
        self._found: dict[str, EntryPoint] | None = None

    def add(self, name: str, value: T) -> T:
        """Register a thing under a name that is still free."""
        if name in self.own:
            raise ValueError(f"There are two {self.plural} called {name!r}: give one another name.")
        self.own[name] = value
        return value

    @property
    def added(self) -> Mapping[str, EntryPoint]:
        """What other packages add, by name; nothing of it is imported."""
        if self._found is None:
            self._found = {one.name: one for one in entry_points(group=f"splitstep.{self.plural}")}
        return self._found

    def __getitem__(self, name: str) -> T:
        if name in self.own:
            return self.own[name]
        if name in self.added:
            return self._load(self.added[name])
        raise KeyError(name)

    def _load(self, point: EntryPoint) -> T:
        try:
            self.own[point.name] = value = self.accept(point.load())
        except Exception as error:
            package = point.dist.name if point.dist else point.value
            reason = (str(error).splitlines() or [""])[0]
            raise ValueError(
                f"The {self.sort} {point.name!r} of the package {package} does not load "
                f"({type(error).__name__}: {reason}): repair or uninstall that package."
            ) from None
        return value

    def find(self, name: str) -> T:
        """The thing of this name, or an error that lists the names."""
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise ValueError(f'there is no {self.sort} "{name}"{nearest(name, self)} known: {known}') from None

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.own, *self.added)))

    def __len__(self) -> int:
        return len(self.own.keys() | self.added.keys())

    def __contains__(self, name: Any) -> bool:
        return name in self.own or name in self.added
