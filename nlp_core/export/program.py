"""A bundle for Python programs that run torch themselves: torch.export's archive.

The program reads ids. The tables from strings to ids, which an ONNX graph contains, are JSON files
of the bundle; everything else is as in the other variants.

Source: torch.export, ExportedProgram and its archive .pt2.
"""

import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nlp_core.export.graph import TracedModel, quiet, trace
from nlp_core.export.inputs import InputPlan, StringTable
from nlp_core.files import write_json
from nlp_core.models.graph import GraphModel
from reglue_runtime import Bundle, load
from reglue_runtime.manifest import PROGRAM, read_manifest
from reglue_runtime.session import Arrays

FILE = "model.pt2"
TABLES = "tables.json"
INPUTS = "program.json"


def write_program(model: GraphModel, inputs: InputPlan, folder: Path) -> None:
    """Write the program of a model on one task, and its tables.

    Raises:
        ConfigError: a block or a head depends on the sizes of a batch.
    """
    # Imported here: only this variant needs them. Without them a recurrent layer is unrolled to
    # the length of the traced text.
    from torch.export._patches import (
        register_gru_while_loop_decomposition,
        register_lstm_while_loop_decomposition,
    )

    with ExitStack() as stack:
        stack.enter_context(quiet())
        stack.enter_context(register_lstm_while_loop_decomposition())
        stack.enter_context(register_gru_while_loop_decomposition())
        program = trace(TracedModel(model, inputs), inputs, model.plan.where).program
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)  # it has paths of this machine
    torch.export.save(program, folder / FILE)
    write_json(folder / TABLES, [table._asdict() for table in inputs.tables])
    notes = [
        {"name": name, "dtype": str(plan.dtype).removeprefix("torch."), "shape": list(plan.shape)}
        for name, plan in inputs.tensors.items()
    ]
    write_json(folder / INPUTS, {"inputs": notes, "outputs": list(model.plan.heads)})


class ProgramGraph:
    """A program, run by torch."""

    def __init__(self, folder: Path) -> None:
        self._module = torch.export.load(folder / FILE).module()
        tables = json.loads((folder / TABLES).read_text(encoding="utf-8"))
        self._tables = [StringTable(**table) for table in tables]
        described = json.loads((folder / INPUTS).read_text(encoding="utf-8"))
        self._dtypes = {note["name"]: getattr(torch, note["dtype"]) for note in described["inputs"]}

    @torch.no_grad()
    def run(self, arrays: Arrays) -> Arrays:
        tensors: dict[str, Tensor] = {
            name: torch.as_tensor(arrays[name]).to(dtype)
            for name, dtype in self._dtypes.items()
            if name in arrays
        }
        for table in self._tables:
            words = arrays[table.source]
            flat = [table.ids.get(word, table.default) for word in words.ravel().tolist()]
            tensors[table.target] = torch.tensor(flat).reshape(words.shape)
        ordered = {name: tensors[name] for name in self._dtypes}
        return {name: np.asarray(scores) for name, scores in self._module(ordered).items()}


def load_any(folder: Path, *, num_threads: int = 1) -> Bundle:
    """Read a bundle of any variant; the threads of a program are torch's global ones."""
    manifest = read_manifest(folder)
    if manifest.variant == PROGRAM:
        return Bundle(folder, manifest, ProgramGraph(folder), num_threads=num_threads)
    return load(folder, num_threads=num_threads)
