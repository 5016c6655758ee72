"""A project whose cells of GLUE, made by hand, say what is known beforehand."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml

from nlp_core.config.dataset import read_dataset
from nlp_core.config.params import Params, read_params
from nlp_core.data.task import read_task
from nlp_core.data.vocabulary import WordVocabulary
from nlp_core.files import digest_file, write_json
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model
from nlp_core.models.plan import read_plan
from nlp_core.models.saving import save_model
from nlp_core.training.cell import read_cell
from nlp_core.training.run import prepare_tasks
from tests.fabricated import RECIPE
from tests.tiny import write_vectors
from tests.tiny_corpus import write_corpus
from tests.tiny_encoder import write_encoder
from tests.tiny_group import describe_groups

ROOT = Path(__file__).resolve().parent.parent
WORDS = [f"w{number}" for number in range(8)]
ROWS = 4
KINDS = {"cola": "classification", "sst2": "classification", "stsb": "pair_regression"}
TASKS = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"]


def make_graph(kind: str) -> dict[str, object]:
    """Return a network that says one number a word, so that its answers are known."""
    word = {"name": "word", "block": "word_embedding", "inputs": ["first"], "dim": 1}
    mean = {"name": "mean", "block": "pooling", "inputs": ["word"], "pool": "mean"}
    head = "regression" if kind.endswith("regression") else "classification"
    return {
        "description": kind,
        "source": "a test",
        "inputs": {"first": "tokens" if kind == "classification" else "tokens_a"},
        "layers": [word, mean],
        "heads": {"out": {"head": head, "inputs": ["mean"]}},
    }


def write_split(folder: Path, kind: str, split: str, words: Sequence[str], label: object) -> None:
    texts = [[word] for word in words]
    columns: dict[str, object] = {"id": list(range(len(words)))}
    names = ["tokens"] if kind == "classification" else ["tokens_a", "tokens_b"]
    columns |= {name: texts for name in names}
    answer = pa.float64() if kind.endswith("regression") else pa.string()
    columns["label"] = pa.array([label] * len(words), answer)
    pq.write_table(pa.table(columns), folder / f"{split}.parquet")


def write_task(task: str) -> None:
    """Write a processed task: one example a word, and test sets of four rows in reverse."""
    config = read_dataset(task).task
    assert config is not None
    folder = Path("data/processed") / task
    folder.mkdir(parents=True)
    tests = [name for name in config.splits if name.startswith("test")]
    label = 1.0 if config.kind.is_number else [*config.labels][-1]
    for split in tests if task == "ax" else ["train", "dev", *tests]:
        is_test = split in tests
        words = WORDS[: -ROWS - 1 : -1] if is_test else WORDS
        write_split(folder, config.kind.name, split, words, None if is_test else label)
    counts = {} if config.label_range else {str(label): len(WORDS)}
    splits = {
        path.stem: {"rows": 0, "sha256": digest_file(path), "labels": counts}
        for path in sorted(folder.glob("*.parquet"))
    }
    select = None if task == "ax" else "dev"
    note = {"task": task, "kind": config.kind.name, "labels": config.labels, "splits": splits}
    note |= {"metrics": config.metrics, "scheme": None}
    write_json(folder / "manifest.json", note | {"select_split": select, "report_split": select})


def write_cell(task: str, params: Params) -> None:
    """Write what training leaves of a cell whose answers are known.

    Seed 1 says the first label below word 6 and the last one from there on, seed 2 the contrary;
    a regression says the number of the word less 2, or less 3.
    """
    experiment = params.experiments[f"{task}_tiny"]
    found = read_task(Path("data/processed") / task)
    plan = read_plan(Path(experiment.model))
    folder = Path("artifacts/cells/trial") / f"{task}_tiny"
    for seed in experiment.seeds:
        train = found.read_split("train")
        featurizer = Featurizer.build(plan, found, train, Path(experiment.init))
        state = build_model(plan, featurizer, kind=found.kind).state_dict()
        for name, value in state.items():
            value.zero_()
            if value.shape[0] > len(WORDS):
                ids = featurizer.encode(train).batch(torch.arange(len(WORDS)).numpy())
                (rows, *_) = ids.features["word"]
                value[rows.flatten(), 0] = torch.arange(len(WORDS), dtype=value.dtype)
            elif name.endswith("weight"):
                value[-1, 0] = 1.0 if found.kind.is_number or seed == 1 else -1.0
            elif found.kind.is_number:
                value[-1] = -1.0 - seed
            else:
                value[-1] = -5.5 if seed == 1 else 5.5
        (folder / f"seed-{seed}").mkdir(parents=True)
        save_model(folder / f"seed-{seed}", state, {"task": featurizer})
    note: dict[str, Any] = {"table": "trial", "cell": f"{task}_tiny", "numerics": 1}
    note["init"] = {"path": experiment.init}
    note |= {"model": experiment.model, "recipe": "quick", "seeds": experiment.seeds, "data": {}}
    note |= {"fingerprint": {}, "parameters": {}, "runs": {"1": {"epochs": {}}}}
    note["runs"]["2"] = note["runs"]["1"]
    facts = {"kind": found.kind.name, "labels": found.labels, "metrics": [], "select_split": "dev"}
    note["tasks"] = {task: facts | {"report_split": "dev", "scheme": None, "footnotes": []}}
    write_json(folder / "cell.json", note)


def write_trained(root: Path) -> None:
    """Write a project, the working folder, with a cell of two seeds for each task of GLUE."""
    write_vectors(root)
    Path("sources").mkdir()
    for task in [*TASKS, "ax"]:
        text = (ROOT / "sources" / f"{task}.yaml").read_text()
        Path(f"sources/{task}.yaml").write_text(re.sub(r"rows: \d+", f"rows: {ROWS}", text))
        write_task(task)
    Path("zoo").mkdir()
    experiments = {}
    for task in TASKS:
        Path(f"zoo/{task}.json").write_text(
            json.dumps(make_graph(KINDS.get(task, "pair_classification")))
        )
        experiments[f"{task}_tiny"] = {
            "table": "trial",
            "model": f"zoo/{task}.json",
            "data": task,
            "init": "data/processed/tiny_vectors",
            "recipe": "quick",
            "seeds": [1, 2],
        }
    experiments["rte_other"] = experiments["rte_tiny"]
    experiments["news_tiny"] = experiments["rte_tiny"] | {"data": "news"}
    names = [*TASKS, "news", "tiny_vectors"]
    params = {"numerics": 1, "tasks": names, "tables": ["trial"]}
    params |= {"recipes": {"quick": RECIPE}, "experiments": experiments}
    Path("params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    for task in TASKS:
        write_cell(task, read_params(Path("params.yaml")))


def write_group(root: Path) -> Params:
    """Add a cell of cola, rte and a corpus, whose weights are those of the cells of one task."""
    folder = root / "data/processed/both"
    for task in ("cola", "rte"):
        shutil.copytree(root / "data/processed" / task, folder / task)
    text = " ".join(["good film the bad"] * 4)
    write_corpus(root, [{"id": idx, "title": "t", "paragraphs": [text]} for idx in range(20)])
    shutil.copytree(root / "data/processed/tiny_corpus", folder / "tiny_corpus")
    params = yaml.safe_load((root / "params.yaml").read_text())
    params["tasks"] += ["tiny_corpus", "tiny_encoder"]
    params["groups"] = describe_groups({"both": ["cola", "rte", "tiny_corpus"]})
    params["recipes"]["mixed"] = RECIPE | {"mixing": {"name": "proportional"}}
    params["experiments"]["both_tiny"] = params["experiments"]["rte_tiny"] | {
        "model": "zoo/both.json",
        "data": "both",
        "recipe": "mixed",
        "init": "data/processed/tiny_encoder",
    }
    encoder = {"name": "encoder", "block": "pretrained_encoder", "dim": 8, "max_length": 16}
    graph = make_graph("pair_classification") | {
        "inputs": {"one": "tokens", "first": "tokens_a", "texts": "texts"},
        "layers": [
            {"name": "word", "block": "word_embedding", "inputs": ["first"], "dim": 1},
            {"name": "word_one", "block": "word", "inputs": ["one"]},
            {"name": "mean", "block": "pooling", "inputs": ["word"], "pool": "mean"},
            {"name": "mean_one", "block": "mean", "inputs": ["word_one"]},
            encoder | {"inputs": ["texts"]},
        ],
        "heads": {
            "cola": {"head": "classification", "inputs": ["mean_one"], "task": "cola"},
            "rte": {"head": "classification", "inputs": ["mean"], "task": "rte"},
            "piece": {
                "head": "masked_language_model",
                "inputs": ["encoder"],
                "task": "tiny_corpus",
            },
        },
    }
    write_encoder(root)
    (root / "zoo/both.json").write_text(json.dumps(graph))
    (root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    return read_params(root / "params.yaml")


def train_group(params: Params) -> None:
    """Write what training leaves of that cell: it says as seed 1 of the others does."""
    cell = read_cell("both_tiny", params)
    model, featurizers, _ = prepare_tasks(cell)
    state = model.state_dict()
    words = featurizers["rte"].vocabularies["word"]
    assert isinstance(words, WordVocabulary)
    state["blocks.word.weight"][words.encode(WORDS), 0] = torch.arange(len(WORDS)).float()
    for task in ("cola", "rte"):
        for name in ("weight", "bias"):
            state[f"heads.{task}.layers.out.{name}"].zero_()
        state[f"heads.{task}.layers.out.weight"][-1, 0] = 1.0
        state[f"heads.{task}.layers.out.bias"][-1] = -5.5
    folder = Path("artifacts/cells/trial/both_tiny")
    for seed in (1, 2):
        (folder / f"seed-{seed}").mkdir(parents=True)
        save_model(folder / f"seed-{seed}", state, featurizers)
    note = json.loads(Path("artifacts/cells/trial/rte_tiny/cell.json").read_text())
    facts = note["tasks"]["rte"]
    note |= {"cell": "both_tiny", "model": "zoo/both.json", "recipe": "mixed"}
    note["init"] = {"path": "data/processed/tiny_encoder"}
    note["tasks"] = {task.name: facts | {"kind": task.kind.name} for task in cell.tasks}
    write_json(folder / "cell.json", note)
