"""Things by name: this package's own, and those that other packages add through entry points."""

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, final

from .typed import nearest

T = TypeVar("T")


@final
class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to things of one sort.

    Other packages add to it through the entry-point group `splitstep.<sort>s`. Their names are listed at once; a
    package is imported when its name is looked up, so a broken one does no other harm. Our own names cannot be
    replaced. `accept` converts what a package provides, or refuses it with a `ValueError`. Our own things in `paths`,
    such as "package.module:NAME", are imported on demand, too.
    """

    def __init__(
        self,
        sort: str,
        own: Mapping[str, T] | None = None,
        plural: str = "",
        accept: Callable[[Any], T] = lambda v: v,
        paths: Mapping[str, str] | None = None,
    ) -> None:
        self.sort, self.plural, self.accept, self.paths = sort, plural or f"{sort}s", accept, dict(paths or {})
        self.own: dict[str, T] = dict(own or {})
        self.given: dict[str, T] = {}
        self.here = set[str]()  # names that were added since the registry was made, which other processes do not have
        self._loaded: dict[str, T] = {}
        self._found: dict[str, EntryPoint] | None = None

    def add(self, name: str, value: T) -> T:
        """Register a thing under a free name."""
        if name in self.own:
            raise ValueError(f"There are two {self.plural} called {name!r}: give one another name.")
        self.own[name] = value
        self.here.add(name)
        return value

    def check_elsewhere(self, name: str) -> None:
        """Refuse a name that worker processes do not know."""
        if name in self.here:
            raise ValueError(
                f"The {self.sort} {name} was added by this program, and worker processes run another one: declare it "
                f'in a package, as an entry point of the group "splitstep.{self.plural}".'
            )

    def give(self, name: str, value: T) -> None:
        """Take a thing for this process alone, in place of one that was given before."""
        self.given[name] = value

    @property
    def known(self) -> dict[str, T]:
        """What is available without an import."""
        return self.own | self._loaded | self.given

    @property
    def added(self) -> Mapping[str, EntryPoint]:
        """What is imported on demand, by name: our own things in `paths`, then what other packages add."""
        if self._found is None:
            group = f"splitstep.{self.plural}"
            own = {name: EntryPoint(name, path, group) for name, path in self.paths.items()}
            self._found = own | {one.name: one for one in entry_points(group=group) if one.name not in own}
        return self._found

    def __getitem__(self, name: str) -> T:
        for known in (self.own, self.given):
            if name in known:
                return known[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(self.added[name])
        return self._loaded[name]

    def _load(self, point: EntryPoint) -> T:
        try:
            return self.accept(point.load())
        except Exception as error:
            if point.dist is None:  # one of our own
                raise
            reason = (str(error).splitlines() or [""])[0]
            raise ValueError(
                f"The {self.sort} {point.name!r} of the package {point.dist.name} does not load "
                f"({type(error).__name__}: {reason}): repair or uninstall that package."
            ) from None

    def find(self, name: str) -> T:
        """The thing of this name, or an error that lists the names."""
        if name not in self:
            known = f"the {self.plural} are {', '.join(self)}"
            raise ValueError(f'there is no {self.sort} "{name}"{nearest(name, self, known)}')
        return self[name]

    def check(self, name: str) -> None:
        """Refuse what `find` refuses, but import nothing of our own for it."""
        if name not in self.paths:
            self.find(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.own, *self.added, *self.given)))

    def __len__(self) -> int:
        return len(self.own.keys() | self.added.keys() | self.given.keys())

    def __contains__(self, name: Any) -> bool:
        return name in self.own or name in self.given or name in self.added
