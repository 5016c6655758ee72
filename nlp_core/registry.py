"""Names for blocks, heads, readers and metrics in configuration files."""

from collections.abc import Callable
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
