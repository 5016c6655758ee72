"""A name for each block, head, reader and metric that a configuration file may call."""

from collections.abc import Callable
from typing import Generic, TypeVar

from nlp_core.errors import ConfigError, suggest

T = TypeVar("T")


class Registry(Generic[T]):
    """Map registered names to things of one sort.

    Args:
        sort: what the names stand for, in the singular, as error messages call it.
    """

    def __init__(self, sort: str) -> None:
        self.sort = sort
        self._items: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers the decorated thing under a new name."""

        def add(item: T) -> T:
            assert name not in self._items, f"{self.sort} '{name}' is registered twice"
            self._items[name] = item
            return item

        return add

    def get(self, name: str) -> T:
        """Return the thing registered as `name`.

        Raises:
            ConfigError: nothing has that name; the nearest one is named.
        """
        if name not in self._items:
            raise ConfigError(f"unknown {self.sort} '{name}'. {suggest(name, self._items)}")
        return self._items[name]

    def name_of(self, item: T) -> str:
        """Return the name under which a thing is registered."""
        return next(name for name, other in self._items.items() if other is item)

    def names(self) -> list[str]:
        """Return all registered names, sorted."""
        return sorted(self._items)
