"""Graphs of lower precision."""

import tempfile
from pathlib import Path

from nlp_core.errors import ConfigError


def quantize(graph: bytes) -> bytes:
    """Return a graph whose matrices are int8, with a scale per column.

    Activations are quantised when the graph runs (dynamic quantisation).

    Note: weights use 7 of the 8 bits: processors without VNNI add two products in 16 bits, which
        overflow with all 8, so that scores would depend on the processor.
    """
    # Imported here: only an export needs it.
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("whole.onnx", "ready.onnx", "small.onnx")]
        paths[0].write_bytes(graph)
        quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        quantize_dynamic(
            paths[1], paths[2], per_channel=True, reduce_range=True, weight_type=QuantType.QInt8
        )
        return paths[2].read_bytes()


def require_half() -> None:
    """Raise ConfigError if no device computes in float16.

    A CPU would convert each number to 32 bits and back.
    """
    # Imported here: only an export needs it.
    from onnxruntime import get_available_providers

    found = ", ".join(get_available_providers())
    raise ConfigError(
        f"float16: onnxruntime has {found}, no device that computes in 16 bits; a CPU converts "
        "each number to 32 bits and back, which is slower than float32. Export int8."
    )
