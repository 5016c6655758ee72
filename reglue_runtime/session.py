"""A graph, run by onnxruntime."""

from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from reglue_runtime.manifest import BundleError

Arrays: TypeAlias = dict[str, np.ndarray]
"""What a graph reads or gives, by name."""
MOST_THREADS = 1024
"""More than a machine has processors; onnxruntime starts them all at once."""


class Graph(Protocol):
    def run(self, arrays: Arrays) -> Arrays: ...


class Session:
    """A graph, run by onnxruntime."""

    def __init__(self, path: Path, *, num_threads: int) -> None:
        # Imported here: training reads texts with this package, and needs no graph.
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        # the errors of onnxruntime share no base class
        errors = state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except (RuntimeError, ValueError, *errors, state.NoSuchFile, state.NotImplemented) as err:
            raise BundleError(
                f"{path}: onnxruntime {onnxruntime.__version__} cannot load it ({err}); install "
                "the version that the bundle was made with, or a later one."
            ) from err
        self._outputs = [item.name for item in self._session.get_outputs()]

    def run(self, arrays: Arrays) -> Arrays:
        return dict(zip(self._outputs, self._session.run(self._outputs, arrays), strict=True))
