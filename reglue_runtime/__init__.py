"""Predict with an exported model: onnxruntime, numpy and tokenizers, nothing else.

bundle = load("artifacts/cells/latency/sst2_student/float32")
bundle.predict(["a gorgeous, witty, seductive movie"])
"""

from reglue_runtime.bundle import Bundle, load
from reglue_runtime.manifest import BundleError

__all__ = ["Bundle", "BundleError", "load"]
