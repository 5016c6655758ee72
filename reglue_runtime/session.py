"""Run the graph of a bundle in onnxruntime."""

from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

from reglue_runtime.manifest import BundleError

ERRORS = (
    *(state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf),
    *(state.NoSuchFile, state.NotImplemented),
)
"""Errors of onnxruntime, which share no base class."""


class Session:
    def __init__(self, path: Path, *, num_threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except (RuntimeError, ValueError, *ERRORS) as err:
            raise BundleError(
                f"{path}: onnxruntime {onnxruntime.__version__} cannot load it ({err}); install "
                "the version that the bundle was made with, or a later one."
            ) from err
        self.outputs = [item.name for item in self._session.get_outputs()]

    def run(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = self._session.run(self.outputs, arrays)
        return dict(zip(self.outputs, found, strict=True))
