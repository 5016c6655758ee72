"""Building blocks, training and reporting behind the stages of Reglue.

The instruction set and the thread count are pinned here, before torch is imported anywhere: they
change the low bits of a sum, and so every number after it. See docs/determinism.md.
"""

import os

PINNED_ENVIRONMENT = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # what makes the products of matrices of a GPU the same in each run; read by nothing else
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}
os.environ.update(PINNED_ENVIRONMENT)
