"""Building blocks, training and reporting of Reglue's stages.

Importing this package pins the instruction set and the thread count of torch and NumPy. Both change
the last bits of a sum, and so every number after it. The pins work only if neither library was
imported before. See docs/determinism.md.
"""

import atexit
import gc
import os
import sys

PINNED_ENVIRONMENT = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # OpenBLAS of NumPy and SciPy, which computes torch's products too (nlp_core/arithmetic.py)
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    # NumPy's own kernels above AVX2
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    # what makes the products of matrices of a GPU the same in each run; read by nothing else
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}

IMPORTED_TOO_EARLY = [
    name
    for name in ("numpy", "torch")
    if name in sys.modules
    and any(os.environ.get(key) != value for key, value in PINNED_ENVIRONMENT.items())
]
"""Libraries that were imported before the pins; `arithmetic.install` warns of them."""

os.environ.update(PINNED_ENVIRONMENT)
# Imports leave half a million objects. The default search for cycles visits them dozens of times,
# which takes a sixth of the time until training starts; training leaves few cycles to find.
gc.set_threshold(200_000)
# The interpreter searches them for cycles once more when it ends, which takes half a second.
atexit.register(gc.freeze)
