"""Check tensor shapes and types in blocks and heads while tests run; production pays nothing."""

import nlp_core  # isort: skip  # noqa: F401  # pins the instruction set before torch is imported

from jaxtyping import install_import_hook

install_import_hook(["nlp_core.blocks", "nlp_core.heads"], "beartype.beartype")
