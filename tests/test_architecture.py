"""docs/architecture.md is true: its paths exist, its floors are the linter's, names are unique.

The graph of imports stays flat, no module knows too many others, and no file is long.
"""

import ast
import re
import tomllib
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
MOST_FILES = {
    "dataset": 2,
    "cell": 1,
    "ensemble": 2,
    "group": 1,
    "table": 3,
    "kind": 2,
    "metric": 1,
    "block": 2,
    "head": 2,
    "format of a source": 1,
    "command": 1,
    "stage": 2,
}
"""For each addition, the files that it may touch."""
LONGEST_CHAIN = 20
MOST_IMPORTS = 15
"""Modules in a chain of imports; modules of ours that one module imports."""
MOST_LINES = 400
FOLDERS = ("nlp_core", "reglue_runtime", "stages", "benchmarks", "tests")
PLACEHOLDER = re.compile(r"(NAME|TABLE|KIND|FAMILY)\b.*$")


def list_additions() -> dict[str, list[str]]:
    section = PAGE.partition("## To add something")[2]
    rows = re.findall(r"^\| (?!new|---)(.+?) \| (.+) \|$", section, re.MULTILINE)
    quoted = {name: re.findall(r"`([^`]+)`", files) for name, files in rows}
    return {name: [item for item in items if "@" not in item] for name, items in quoted.items()}


def find_path(text: str) -> Path:
    place = PLACEHOLDER.sub("", text)
    folder = ROOT / place
    return folder if folder.exists() else ROOT / "nlp_core" / place


def test_the_page_has_fewer_than_a_hundred_lines() -> None:
    assert len(PAGE.splitlines()) < 100


@pytest.mark.parametrize("name", MOST_FILES)
def test_an_addition_touches_few_files_that_exist(name: str) -> None:
    files = list_additions()[name]
    assert 1 <= len(files) <= MOST_FILES[name]
    assert [file for file in files if not find_path(file).exists()] == []


def test_every_addition_is_counted() -> None:
    assert {*list_additions()} == {*MOST_FILES}


def test_the_path_of_the_data_names_modules_that_exist() -> None:
    way = PAGE.partition("The path of WikiQA")[2].partition("## Words")[0]
    modules = re.findall(r"`([a-z_/]+\.py)`", way)
    assert len(modules) == 12
    assert [name for name in modules if not (ROOT / "nlp_core" / name).is_file()] == []


def test_the_floors_are_those_of_the_linter() -> None:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = content["tool"]["importlinter"]["contracts"][0]
    expected = [{*re.findall(r"[a-z_]+", floor)} - {"nlp_core"} for floor in contract["layers"]]
    drawn = PAGE.partition("(`lint-imports`).")[2].partition("`config/`")[0]
    lines = [line.strip().partition("  ")[0] for line in drawn.strip().splitlines()]
    assert [{*re.findall(r"[a-z_]+", line)} for line in lines] == expected


def test_no_file_is_long() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    sizes = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {path: size for path, size in sizes.items() if size > MOST_LINES} == {}


def test_no_two_classes_have_one_name() -> None:
    found = defaultdict(list)
    for path in [*ROOT.glob("nlp_core/**/*.py"), *ROOT.glob("reglue_runtime/**/*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.name)
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


@cache
def read_imports() -> dict[str, set[str]]:
    """Return by module the modules of ours that it imports."""
    graph = grimp.build_graph("nlp_core", "reglue_runtime", cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_no_chain_of_imports_is_long() -> None:
    imports, chains = read_imports(), dict[str, list[str]]()
    for name in TopologicalSorter(imports).static_order():  # raises for a cycle
        below = max((chains[other] for other in imports[name]), key=len, default=[])
        chains[name] = [name, *below]
    longest = max(chains.values(), key=len)
    assert len(longest) <= LONGEST_CHAIN, " -> ".join(longest)


def test_no_module_imports_many_others() -> None:
    wide = {name: len(found) for name, found in read_imports().items() if len(found) > MOST_IMPORTS}
    assert wide == {}
