"""Read damaged configuration: `python benchmarks/faults/mutated_configuration.py`.

params.yaml, a file of grid/, a model file, a source and a file of published numbers are mutated:
bytes as in mutated_files.py, and values that become other values. Each mutation must be read, or
raise an error of one paragraph. Prints the counts; exit code 1 if anything else was raised.
"""

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.faults.mutated_files import Outcome, attempt, mutate
from benchmarks.faults.small_project import write_small_project
from nlp_core.config.dataset import read_dataset
from nlp_core.config.params import read_params
from nlp_core.config.published import read_published
from nlp_core.errors import NlpCoreError
from nlp_core.models.plan import read_plan

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e999, "", " ", "a", "../..", "\u2028", [], {}, [[]], [None], {"a": 1},
    "null", "1e-5", 10**30, "x" * 300, [1, "a"], {"name": "adam"},
)  # fmt: skip


class Case(NamedTuple):
    """A file of configuration, and what reads it."""

    path: Path
    read: Callable[[], object]


def list_cases() -> list[Case]:
    """Return the cases of a small project; the paths are relative to its root."""
    model = Path("zoo/sample/sentence_bilstm.json")
    params, published = Path("params.yaml"), Path("reports/published/small.yaml")
    return [
        Case(params, lambda: read_params(params)),
        Case(Path("grid/small.yaml"), lambda: read_params(params)),
        Case(model, lambda: read_plan(model)),
        Case(Path("sources/sample_sentence.yaml"), lambda: read_dataset("sample_sentence")),
        Case(published, lambda: read_published(published)),
    ]


def run_case(case: Case, mutations: int, seed: int) -> Outcome:
    """Read the right file, then mutations of it; run from the project's root."""
    draw = random.Random(f"{seed} {case.path}")
    counts, fault, whole = Counter[str](), None, case.path.read_bytes()
    case.read()
    for number in range(mutations):
        case.path.write_bytes(
            _change(whole, case.path, draw) if number % 2 else mutate(whole, draw)
        )
        found = attempt(case.read, NlpCoreError, counts)
        fault = fault or found
    case.path.write_bytes(whole)
    return Outcome(counts, fault)


def _change(whole: bytes, path: Path, draw: random.Random) -> bytes:
    """Return a file in which one value became another one, is gone, or has another key."""
    is_json = path.suffix == ".json"
    content = json.loads(whole) if is_json else yaml.safe_load(whole)
    places = [*_list_places(content)]
    parent, key = draw.choice(places)
    change = draw.randrange(4)
    if change == 0:
        del parent[key]
    elif change == 1 and isinstance(parent, dict):
        parent[draw.choice(["a", "", "name", f"{key}s", 3, "\u2028"])] = parent.pop(key)
    else:
        parent[key] = draw.choice(ODD)
    text = json.dumps(content) if is_json else yaml.safe_dump(content, allow_unicode=True)
    return text.encode()


def _list_places(value: Any) -> list[tuple[Any, Any]]:  # Any: YAML
    """Return each place below a value as what holds it and its key."""
    keys = [*value] if isinstance(value, dict) else [*range(len(value))]
    inner = [value[key] for key in keys if isinstance(value[key], dict | list)]
    return [
        *((value, key) for key in keys),
        *(pair for item in inner for pair in _list_places(item)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=200, help="of each file")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        write_small_project(Path(folder) / "project")
        with chdir(Path(folder) / "project"):
            for case in list_cases():
                found = run_case(case, options.mutations, options.seed)
                print(f"{case.path!s:32}", dict(sorted(found.counts.items())), flush=True)
                if found.fault:
                    faults += 1
                    print(found.fault)
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
