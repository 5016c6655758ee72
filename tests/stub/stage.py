"""Replace a stage: cheap, deterministic, the same inputs and outputs as dvc.yaml names.

Copied under the name of each stage into a project's stages/. Appends `<stage> <name>` to the file
$REGLUE_STUB_CALLS, so that a test sees what ran. A recipe may hold `sleep` (s) and `fail`.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import yaml

STAGE = Path(__file__).stem


def digest(value: object, paths: list[Path]) -> str:
    """Return the sha256 of a value and of every file at or below `paths`."""
    sha = hashlib.sha256(json.dumps(value, sort_keys=True).encode())
    for path in paths:
        files = sorted(item for item in path.rglob("[!.]*") if item.is_file()) or [path]
        for file in files:
            sha.update(file.as_posix().encode() + file.read_bytes())
    return sha.hexdigest()


def write(path: Path, *lines: str) -> None:
    """Write a text file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def finetune(name: str) -> None:
    """Write a cell's folder, its last file after the recipe's sleep."""
    numerics = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))["numerics"]
    grid = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in Path("grid").iterdir()]
    (table,) = (table for table in grid if name in table["experiments"])
    cell = table["experiments"][name]
    recipe = table["recipes"][cell["recipe"]]
    inputs = [Path(cell["model"]), Path("data/processed", cell["data"]), Path(cell["init"])]
    folder = Path("artifacts/cells", cell["table"], name)
    found = digest([numerics, cell, recipe], inputs)
    write(folder / "seed-1" / "model.safetensors", found)
    time.sleep(recipe.get("sleep", 0))
    if recipe.get("fail"):
        sys.stderr.write("error: the stub was told to fail\n")
        raise SystemExit(2)
    write(folder / "cell.json", found)


def teach(name: str) -> None:
    """Write a taught task."""
    teacher = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))["taught"][name]
    found = digest(teacher, [Path(teacher["cell"]), Path("data/processed", teacher["data"])])
    write(Path("data/processed", name, "manifest.json"), found)


def main(name: str) -> None:
    """Write what the stage of this file's name writes for `name`."""
    described = Path("sources", f"{name}.yaml")
    raw, processed = Path("data/raw", name), Path("data/processed", name)
    results, published = Path("results", f"{name}.json"), Path("reports/published", f"{name}.yaml")
    if STAGE == "preprocess":
        write(raw / "manifest.json", digest(STAGE, [described]))
        write(processed / "train.parquet", digest(STAGE, [raw]))
        write(processed / "manifest.json", digest(STAGE, [described, raw]))
    elif STAGE == "finetune":
        finetune(name)
    elif STAGE == "teach":
        teach(name)
    elif STAGE == "evaluate":
        write(results, digest(STAGE, [Path("artifacts/cells", name)]))
        write(Path("results/examples", name, "cell.parquet"), digest(STAGE, [results]))
    else:
        write(Path("reports", f"{name}.md"), digest(STAGE, [results, published]))
        write(Path("reports", f"{name}.svg"), "<svg/>", digest(STAGE, [results]))


if __name__ == "__main__":
    with Path(os.environ["REGLUE_STUB_CALLS"]).open("a", encoding="utf-8") as calls:
        calls.write(f"{STAGE} {sys.argv[1]}\n")
    main(sys.argv[1])
