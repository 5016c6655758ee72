"""From a traced model to an ONNX graph that reads strings.

Source: the operators LSTM, GRU and LabelEncoder of the ONNX standard.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import torch
from onnx import helper
from torch import Tensor, nn

from nlp_core.errors import ConfigError
from nlp_core.export.inputs import InputPlan, TensorPlan
from nlp_core.export.recurrent import replace_layers
from nlp_core.export.traced import TracedModel
from nlp_core.models.graph import GraphModel

OPSET = 20
ML_DOMAIN = "ai.onnx.ml"
ML_OPSET = 2


def build_graph(model: GraphModel, inputs: InputPlan) -> bytes:
    """Return the ONNX graph of a model, with sizes of batch and texts left open.

    Args:
        model: the trained model, on one task.
        inputs: what the graph reads.

    Raises:
        ConfigError: a block or a head does something that depends on the sizes of a batch in a
            way that no graph can write down.
    """
    traced = TracedModel(model, inputs)
    replace_layers(traced)
    with quiet():
        program = trace(traced, inputs, model.plan.where)
        exported = torch.onnx.export(
            program,
            input_names=list(inputs.tensors),
            output_names=list(model.plan.heads),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    assert exported is not None
    return add_tables(exported.model_proto, inputs)


def trace(module: nn.Module, inputs: InputPlan, where: str) -> torch.export.ExportedProgram:
    """Return a module as a program of torch; every size that may vary is left open.

    Raises:
        ConfigError: the module fixes a size.
    """
    # Any: what torch.export takes is nested as the arguments are
    sizes = {
        name: {
            idx: torch.export.Dim.DYNAMIC
            for idx, size in enumerate(plan.shape)
            if isinstance(size, str)
        }
        for name, plan in inputs.tensors.items()
    }
    try:
        return torch.export.export(
            module, (make_sample(inputs),), dynamic_shapes=(sizes,), strict=False
        )
    except (torch._dynamo.exc.UserError, RuntimeError, ValueError) as err:
        reason = str(err).strip().partition("\n")[0]
        raise ConfigError(
            f"{where}: a block or a head of the model works in steps whose number depends on the "
            f"text, which a graph cannot write down ({reason}); export a model without it."
        ) from err


def make_sample(inputs: InputPlan) -> dict[str, Tensor]:
    """Return a small batch: each size that may vary has a number of its own, above 1."""
    sizes: dict[str, int] = {}
    for plan in inputs.tensors.values():
        for size in plan.shape:
            if isinstance(size, str):
                sizes.setdefault(size, 3 + 2 * len(sizes))
    generator = torch.Generator().manual_seed(0)
    return {name: _make_tensor(plan, sizes, generator) for name, plan in inputs.tensors.items()}


def _make_tensor(plan: TensorPlan, sizes: dict[str, int], generator: torch.Generator) -> Tensor:
    shape = [sizes[size] if isinstance(size, str) else size for size in plan.shape]
    if plan.dtype.is_floating_point:
        return torch.rand(shape, dtype=plan.dtype, generator=generator)
    # ids 1 and 2 are in every vocabulary, and lengths of them in every text
    return torch.randint(1, 3, shape, dtype=plan.dtype, generator=generator)


def add_tables(proto: onnx.ModelProto, inputs: InputPlan) -> bytes:
    """Put the tables from strings to ids before what torch wrote; drop what says where from.

    Args:
        proto: the graph that reads ids.
        inputs: what it is to read.
    """
    graph = proto.graph
    read = {name for node in graph.node for name in node.input}
    tables = [table for table in inputs.tables if table.target in read]
    given = {table.target for table in inputs.tables}
    kept = [item for item in graph.input if item.name in read and item.name not in given]
    strings = [
        helper.make_tensor_value_info(name, onnx.TensorProto.STRING, list(shape))
        for name, shape in inputs.strings.items()
        if any(table.source == name for table in tables)
    ]
    del graph.input[:]
    graph.input.extend([*strings, *kept])
    nodes = [
        helper.make_node(
            "LabelEncoder",
            [table.source],
            [table.target],
            name=f"table {table.target}",
            domain=ML_DOMAIN,
            keys_strings=list(table.ids),
            values_int64s=list(table.ids.values()),
            default_int64=table.default,
        )
        for table in tables
    ]
    own = list(graph.node)
    for node in own:
        del node.metadata_props[:]
        node.doc_string = ""
    del graph.node[:]
    graph.node.extend([*nodes, *own])
    del graph.value_info[:]  # shapes that onnxruntime infers anew, also of what it rewrites
    for items in (graph.input, graph.output, graph.initializer):
        for item in items:
            item.doc_string = ""
            if hasattr(item, "metadata_props"):
                del item.metadata_props[:]
    del graph.metadata_props[:]
    del proto.metadata_props[:]
    if tables:
        proto.opset_import.append(helper.make_opsetid(ML_DOMAIN, ML_OPSET))
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString(deterministic=True))


@contextmanager
def quiet() -> Iterator[None]:
    """Let the exporter write no progress and no warning."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
