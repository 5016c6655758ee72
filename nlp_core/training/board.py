"""Curves of a running training in TensorBoard."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from nlp_core.errors import ConfigError
from nlp_core.training.history import Event, list_values


def check_board() -> None:
    """Check that TensorBoard's files can be written.

    Raises:
        ConfigError: the library is not installed.
    """
    if find_spec("tensorboard") is None:
        raise ConfigError(
            "--tensorboard: needs the library tensorboard, which is not installed; run "
            "`pip install 'reglue[tensorboard]'`."
        )


@contextmanager
def show_events(folder: Path | None, events: Sequence[Event]) -> Iterator[Callable[[], None]]:
    """Yield a function that writes the events which were added since its last call.

    The curves that the folder has are replaced, so those of a resumed run are whole.
    """
    if folder is None:
        yield lambda: None
        return
    from torch.utils.tensorboard import SummaryWriter  # here, since few runs need it

    for path in sorted(folder.glob("events.out.tfevents.*")):
        path.unlink()
    written = 0
    with SummaryWriter(str(folder)) as writer:

        def write() -> None:
            nonlocal written
            new = events[written:]
            for event in new:
                for name, value in list_values(event).items():
                    writer.add_scalar(name, value, event.get("step", 0))
            written += len(new)
            if new:
                writer.flush()

        write()
        try:
            yield write
        finally:
            write()
