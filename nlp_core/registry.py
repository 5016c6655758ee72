"""Names for blocks, heads, readers and metrics in configuration files."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from nlp_core.errors import ConfigError, suggest

T = TypeVar("T")


class Registry(Generic[T]):
    """Map names to things of one sort, whose singular is used in error messages."""

    def __init__(self, sort: str) -> None:
        self.sort = sort
        self._items: dict[str, T] = {}

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
        if name not in self._items:
            raise ConfigError(f"unknown {self.sort} '{name}'. {suggest(name, self._items)}")
        return self._items[name]

    def name_of(self, item: T) -> str:
        return next(name for name, other in self._items.items() if other is item)

    def names(self) -> list[str]:
        return sorted(self._items)


def import_modules(package: str, folders: Iterable[str]) -> None:
    """Import all modules of a package, so that what they register has its name."""
    for module in pkgutil.iter_modules(folders, f"{package}."):
        importlib.import_module(module.name)
