"""From a trained model to an ONNX graph that reads strings.

Shape letters: B batch, T tokens, D width, R rows of a table.

Source: the operators LSTM, GRU and LabelEncoder of the ONNX standard.
"""

import copy
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import torch
from onnx import helper
from torch import Tensor, nn
from torch.fx.experimental import _config as tracing
from torch.nn import functional

from nlp_core.blocks import Block
from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.blocks.masking import zero_padding
from nlp_core.encoders.encoder_decoder import PretrainedEncoderDecoder
from nlp_core.errors import ConfigError
from nlp_core.export.inputs import InputPlan, TensorPlan
from nlp_core.export.operators import TRANSLATIONS, replace_layers
from nlp_core.export.reading import mask_lengths
from nlp_core.heads.base import Head
from nlp_core.heads.parsing import WritingHead
from nlp_core.heads.piece_writing import LabelTextHead, PieceDecoder
from nlp_core.heads.sentence import ClassificationHead, MultiLabelHead
from nlp_core.heads.tagging import TaggingHead
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel

OPSET = 20
ML_DOMAIN = "ai.onnx.ml"
ML_OPSET = 2
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 33, 100, 1000)
"""Sizes of batch and texts that a trace must accept; one that fixed a size rejects some."""
OUTPUT = "head."
"""Before the name of a head while torch writes its graph."""
LONGER = 40
"""Added to the sizes of a second sample, which is longer than any window."""
NEXT_PIECES = ("states", "inside", "before")
"""Inputs of a decoder's graph: what it attends to, and the pieces before, -1 for the start."""
FIXED = (torch._dynamo.exc.UserError, RuntimeError, ValueError)
"""What torch.export and find_limit raise if a size is fixed."""


class Trace(NamedTuple):
    """A module as torch.export writes it, for all sizes.

    `open_branches`: branches on a size took the way that is right for all sizes.
    """

    program: torch.export.ExportedProgram
    open_branches: bool


class TableEmbedding(Block):
    """A word embedding whose trained rows and vectors are one table."""

    table: Tensor

    def __init__(self, block: WordEmbedding) -> None:
        super().__init__()
        self.register_buffer("table", torch.cat([block.weight.detach(), block.fixed]))

    def forward(self, ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        return functional.embedding(ids_BT, self.table)


class ReadHead(Head):
    """What a head that writes reads; the runtime writes."""

    def forward(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        return zero_padding(x_BTD, mask_BT)


class TracedModel(nn.Module):
    """A model on one task that reads a runtime's inputs; the trained model stays unchanged."""

    def __init__(self, model: GraphModel, inputs: InputPlan) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        for name, block in self.model.blocks.items():
            if isinstance(block, WordEmbedding):
                self.model.blocks[name] = TableEmbedding(block)
        for name, head in self.model.heads.items():
            if isinstance(head, WritingHead):
                self.model.heads[name] = ReadHead()
        self.readers = nn.ModuleDict(inputs.readers)
        self.lengths = inputs.lengths
        self.timed = {name: _find_timed(inputs, name) for name in set(self.lengths.values())}

    def forward(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return for each head its scores, as probabilities if it gives any."""
        masks = {}
        for name, lengths in self.lengths.items():
            timed, axis = self.timed[lengths]
            masks[name] = mask_lengths(tensors[lengths], tensors[timed].shape[axis])
        features = {}
        for layer in self.model.plan.layers:
            if layer.name in self.readers:
                mask = masks.get(layer.inputs[0])
                features[layer.name] = self.readers[layer.name](tensors, mask)
        scores = self.model(Batch(features, masks, {}, np.empty(0)))
        return {name: _finish(self.model.heads[name], score) for name, (score, _) in scores.items()}


def _find_timed(inputs: InputPlan, lengths: str) -> tuple[str, int]:
    """Return the tensor, and its dimension, that is as long as the longest text."""
    axis = lengths.removesuffix(".lengths")
    for name, plan in inputs.tensors.items():
        for idx, size in enumerate(plan.shape):
            if size in (f"T:{axis}", f"L:{axis}"):
                return name, idx
    raise AssertionError(lengths)


class NextPieces(nn.Module):
    """Rate the next piece of texts with the decoder of a trained model."""

    def __init__(self, decoder: PieceDecoder) -> None:
        super().__init__()
        self.decoder = copy.deepcopy(decoder)

    def forward(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        states_RTD, inside_RT, before_RS = (tensors[name] for name in NEXT_PIECES)
        return {"scores": self.decoder.rate(states_RTD, inside_RT > 0, before_RS)[:, -1]}


def build_decoder_graph(decoder: PretrainedEncoderDecoder, where: str) -> bytes:
    """Return the ONNX graph that rates the next piece of texts, after all pieces before."""
    shapes = (("R", "T", decoder.width), ("R", "T"), ("R", "S"))
    types = (torch.float32, torch.int64, torch.int64)
    plans = map(TensorPlan, types, shapes)
    inputs = InputPlan(tensors=dict(zip(NEXT_PIECES, plans, strict=True)))
    module = NextPieces(decoder).eval().requires_grad_(False)
    return _export(module, inputs, ["scores"], where)


def _finish(head: nn.Module, scores: Tensor) -> Tensor:
    """Return the scores of a head as probabilities, if each label has its own."""
    if isinstance(head, LabelTextHead):
        return head.compute_chances(scores)
    if type(head) in (ClassificationHead, TaggingHead):
        return scores.softmax(-1)
    return scores.sigmoid() if isinstance(head, MultiLabelHead) else scores


def build_graph(model: GraphModel, inputs: InputPlan) -> bytes:
    """Return the ONNX graph of a model on one task; sizes of batch and texts stay dynamic.

    Raises:
        ConfigError: a block or a head depends on the sizes of a batch.
    """
    traced = TracedModel(model, inputs)
    replace_layers(traced)
    return _export(traced, inputs, list(model.plan.heads), model.plan.where)


def _export(module: nn.Module, inputs: InputPlan, outputs: list[str], where: str) -> bytes:
    with quiet():
        found = trace(module, inputs, where)
        try:
            # torch.onnx traces the program once more
            with tracing.patch(backed_size_oblivious=found.open_branches):  # type: ignore[attr-defined]
                exported = torch.onnx.export(
                    found.program,
                    input_names=list(inputs.tensors),
                    output_names=[OUTPUT + name for name in outputs],
                    opset_version=OPSET,
                    custom_translation_table=TRANSLATIONS,
                    dynamo=True,
                    external_data=False,
                    verbose=False,
                )
        except torch.onnx.OnnxExporterError as err:
            raise _refuse(where, "has no ONNX operator", err) from err
    assert exported is not None
    proto = exported.model_proto  # a new one at each access
    _name_outputs(proto.graph)
    return add_tables(proto, inputs)


def _name_outputs(graph: onnx.GraphProto) -> None:
    """Name the outputs after the heads; torch may have named a value within the graph the same."""
    names = {item.name: item.name.removeprefix(OUTPUT) for item in graph.output}
    names |= {name: f"{name}.inner" for name in names.values()}
    for node in graph.node:
        for listed in (node.input, node.output):
            listed[:] = [names.get(name, name) for name in listed]
    for item in (*graph.output, *graph.initializer):
        item.name = names.get(item.name, item.name)


def trace(module: nn.Module, inputs: InputPlan, where: str) -> Trace:
    """Return a module as a torch program with dynamic sizes.

    Raises:
        ConfigError: the module fixes a size.
    """
    with suppress(*FIXED):
        return Trace(_trace_open(module, inputs), open_branches=False)
    try:
        # Now a branch on a size takes the path that holds for all sizes, if one does. This is the
        # second try, since it writes equal graphs with other bytes.
        with tracing.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
            return Trace(_trace_open(module, inputs, LONGER), open_branches=True)
    except FIXED as err:
        what = "has steps whose number depends on the text, which a graph cannot express"
        raise _refuse(where, what, err) from err


def _trace_open(
    module: nn.Module, inputs: InputPlan, longer: int = 0
) -> torch.export.ExportedProgram:
    """Return a program that accepts all sizes; ValueError if there is none."""
    dimensions = {
        name: {
            idx: torch.export.Dim.DYNAMIC
            for idx, size in enumerate(plan.shape)
            if isinstance(size, str)
        }
        for name, plan in inputs.tensors.items()
    }
    program = torch.export.export(
        module, (make_sample(inputs, longer),), dynamic_shapes=(dimensions,), strict=False
    )
    limit = find_limit(program, inputs)
    if limit is not None:
        raise ValueError(limit)
    return program


def find_limit(program: torch.export.ExportedProgram, inputs: InputPlan) -> str | None:
    """Return a condition of a traced program that some sizes break; None if it accepts all.

    torch.export records the way that its sample took: if a branch asked for more tokens than a
    window has, the program is only for such texts, and an ONNX graph made of it would not say so.
    """
    check = getattr(program.module(), "_guards_fn", None)
    if check is None:
        return None
    shapes = [plan.shape for plan in inputs.tensors.values()]
    names = sorted({size for shape in shapes for size in shape if isinstance(size, str)})
    for size in SIZES:
        for step in (0, 1):  # all sizes equal, then all different
            sizes = {name: size + step * idx for idx, name in enumerate(names)}
            for name, (least, most) in inputs.limits.items():
                sizes[name] = min(max(sizes[name], least), most)
            # tensors that take no memory
            tensors = [
                torch.zeros((), dtype=plan.dtype).expand(plan.fill(sizes))
                for plan in inputs.tensors.values()
            ]
            try:
                check(*tensors)
            except AssertionError as err:
                return str(err)
    return None


def _refuse(where: str, what: str, err: BaseException) -> ConfigError:
    while err.__cause__ is not None:  # torch.onnx names the operator at the bottom
        err = err.__cause__
    reason = str(err).strip().partition("\n")[0]
    return ConfigError(
        f"{where}: a block or a head of the model {what} ({reason}); export a model without it."
    )


def make_sample(inputs: InputPlan, longer: int = 0) -> dict[str, Tensor]:
    """Return a small batch in which each dynamic size is a different number above 1.

    `longer` is added to each size without a limit.
    """
    sizes: dict[str, int] = {}
    for plan in inputs.tensors.values():
        for size in plan.shape:
            if isinstance(size, str):
                more = 0 if size in inputs.limits else longer
                sizes.setdefault(size, 3 + 2 * len(sizes) + more)
    generator = torch.Generator().manual_seed(0)
    return {name: _make_tensor(plan, sizes, generator) for name, plan in inputs.tensors.items()}


def _make_tensor(plan: TensorPlan, sizes: dict[str, int], generator: torch.Generator) -> Tensor:
    shape = plan.fill(sizes)
    if plan.dtype.is_floating_point:
        return torch.rand(shape, dtype=plan.dtype, generator=generator)
    # ids 1 and 2 are in every vocabulary, and lengths of them in every text
    return torch.randint(1, 3, shape, dtype=plan.dtype, generator=generator)


def add_tables(proto: onnx.ModelProto, inputs: InputPlan) -> bytes:
    """Put the tables from strings to ids before torch's graph; drop source locations."""
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
    del graph.value_info[:]  # onnxruntime infers these shapes again
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
    """Silence the exporter's progress messages and warnings."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def quantize(graph: bytes) -> bytes:
    """Return a graph whose matrices are int8, with a scale per column.

    Activations are quantised when the graph runs (dynamic quantisation).

    Note: weights use 7 of the 8 bits: processors without VNNI add two products in 16 bits, which
        overflow with all 8, so that scores would depend on the processor.
    """
    # Imported here: only int8 needs it.
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
