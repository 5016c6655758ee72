"""The settings of a service, which are its options on the command line."""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TypeVar

from reglue_runtime.session import MOST_THREADS

T = TypeVar("T", int, float, str)


def _option(
    default: T, unit: str, text: str, least: float | None = None, most: float = math.inf
) -> T:
    read = type(default) if least is None else _within(type(default), least, most)
    return field(default=default, metadata={"type": read, "metavar": unit, "help": text})


def _within(kind: Callable[[str], T], least: float, most: float) -> Callable[[str], T]:
    def number(text: str) -> T:
        value = kind(text)
        if not least <= float(value) <= most:
            bounds = f"{least} or more" if most == math.inf else f"{least} to {most:.7g}"
            raise argparse.ArgumentTypeError(f"found {text}, expected {bounds}")
        return value

    return number


@dataclass(frozen=True)
class Settings:
    """How a service listens and batches, and its limits."""

    host: str = _option("127.0.0.1", "HOST", "address")
    port: int = _option(8000, "PORT", "port, 0 for a free one", 0, 65535)
    max_batch: int = _option(32, "N", "examples per batch, 1 for no batching", 1)
    max_queue: int = _option(1024, "N", "examples that may wait for a bundle; more get 429", 1)
    max_body: int = _option(1 << 20, "N", "largest request in bytes; larger ones get 413", 1)
    max_text: int = _option(10_000, "N", "longest example in characters; longer ones get 422", 1)
    threads: int = _option(1, "N", "threads per prediction", 1, MOST_THREADS)
    max_wait_ms: float = _option(
        2.0, "MS", "longest wait for a batch to fill, in milliseconds", 0, 1e6
    )
    pad_to: str = _option(
        "", "SIZES", "sizes to which batches and texts are padded, such as 1,8,32; empty for none"
    )
    timeout: float = _option(
        30.0, "S", "seconds for a request to arrive, else 408, and to be answered, else 503", 0, 1e6
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    for item in fields(Settings):
        flag, note = f"--{item.name.replace('_', '-')}", dict(item.metadata)
        parser.add_argument(flag, default=item.default, **note)


def read_options(options: argparse.Namespace) -> Settings:
    return Settings(**{item.name: getattr(options, item.name) for item in fields(Settings)})
