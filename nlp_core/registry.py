"""Names for blocks, heads, readers and metrics in configuration files."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from nlp_core.errors import ConfigError, suggest

T = TypeVar("T")


class Registry(Generic[T]):
    """Map names to things of one sort.

    Args:
        sort: the singular, for error messages.
        package: its modules are imported when a name is first looked up, so that a new file is
            enough to register something.
    """

    def __init__(self, sort: str, package: str | None = None) -> None:
        self.sort = sort
        self._items: dict[str, T] = {}
        self._package = package

    def _find(self) -> dict[str, T]:
        """Return all things; those of the package are imported first."""
        if self._package is not None:
            package, self._package = importlib.import_module(self._package), None
            import_modules(package.__name__, package.__path__)
        return self._items

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers something under a new name."""

        def add(item: T) -> T:
            assert name not in self._items, f"{self.sort} '{name}' is registered twice"
            self._items[name] = item
            return item

        return add

    def get(self, name: str) -> T:
        """Return the thing registered as `name`.

        Raises:
            ConfigError: nothing has that name.
        """
        items = self._find()
        if name not in items:
            raise ConfigError(f"unknown {self.sort} '{name}'. {suggest(name, items)}")
        return items[name]

    def forget(self, names: Iterable[str]) -> None:
        """Undo registrations."""
        for name in names:
            del self._items[name]

    def name_of(self, item: T) -> str:
        return next(name for name, other in self._find().items() if other is item)

    def names(self) -> list[str]:
        return sorted(self._find())


def import_modules(package: str, folders: Iterable[str]) -> None:
    """Import all modules of a package, so that what they register has its name."""
    for module in pkgutil.iter_modules(folders, f"{package}."):
        importlib.import_module(module.name)
