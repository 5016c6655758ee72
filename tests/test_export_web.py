"""An exported graph outside of Python: in Node, by the WebAssembly build of ONNX Runtime."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reglue_runtime import load
from tests.tiny import write_task, write_vectors
from tests.tiny_export import JOINT, WORDS, export, make_trained

SCRIPT = """
const ort = require("onnxruntime-web");
const request = JSON.parse(require("fs").readFileSync(0));
const convert = {
  object: (values) => ["string", values],
  int64: (values) => ["int64", BigInt64Array.from(values, BigInt)],
  float32: (values) => ["float32", Float32Array.from(values)],
  bool: (values) => ["bool", Uint8Array.from(values, Number)],
};
async function main() {
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(require("fs").readFileSync(request.graph));
  const answers = [];
  for (const inputs of request.batches) {
    const feeds = {};
    for (const [name, {type, shape, values}] of Object.entries(inputs)) {
      const [kind, data] = convert[type](values);
      feeds[name] = new ort.Tensor(kind, data, shape);
    }
    const found = await session.run(feeds);
    answers.push(Object.fromEntries(Object.entries(found).map(
      ([name, {dims, data}]) => [name, {shape: dims, values: Array.from(data, Number)}])));
  }
  console.log(JSON.stringify(answers));
}
main().catch((error) => { console.error(error); process.exit(1); });
"""
BATCHES = [["a good film"], ["the awful 42", "good film good film good", "x"], ["film " * 200]]


@pytest.fixture(scope="module")
def modules() -> str:
    """The folder of Node's packages; skip if one is missing."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("node and npm are not installed")
    root = subprocess.run([npm, "root", "--global"], capture_output=True, text=True, check=True)
    folder = root.stdout.strip()
    if not Path(folder, "onnxruntime-web").is_dir():
        pytest.skip("onnxruntime-web is missing: npm install --global onnxruntime-web")
    return folder


def describe(array: np.ndarray) -> dict[str, Any]:
    values = array.ravel().tolist()
    return {"type": str(array.dtype), "shape": list(array.shape), "values": values}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "graph"), [("classification", WORDS), ("intent_slots", JOINT)], ids=["words", "joint"]
)
def test_a_graph_scores_texts_of_any_length_without_python(
    kind: str, graph: dict[str, Any], tmp_path: Path, modules: str
) -> None:
    trained = make_trained(
        tmp_path, write_task(tmp_path, kind=kind), write_vectors(tmp_path), graph
    )
    export(trained, tmp_path / "float32", variant="float32")
    bundle = load(tmp_path / "float32")
    read = [bundle.featurize(texts)[1] for texts in BATCHES]
    request = {
        "graph": str(tmp_path / "float32" / bundle.manifest.graph),
        "batches": [{name: describe(item) for name, item in arrays.items()} for arrays in read],
    }
    done = subprocess.run(
        ["node", "-e", SCRIPT],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env=os.environ | {"NODE_PATH": modules},
    )
    assert done.returncode == 0, done.stderr
    for arrays, found in zip(read, json.loads(done.stdout), strict=True):
        right = bundle._graph.run(arrays)
        assert sorted(found) == sorted(right)
        for name, scores in right.items():
            values = np.array(found[name]["values"]).reshape(found[name]["shape"])
            # other kernels sum in another order
            np.testing.assert_allclose(values, scores, rtol=1e-4, atol=1e-4)
