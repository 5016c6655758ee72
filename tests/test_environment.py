import re
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent


UNLOCKED = {"chinese", "japanese", "spacy"}
"""Extras whose dictionaries have no wheel: 66 MB that few need would be built at each install."""


def read_project() -> dict[str, str]:
    """Return name and version of every locked requirement of pyproject.toml, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = project["optional-dependencies"]
    extras = [found[name] for name in sorted(found.keys() - UNLOCKED)]
    return read_pins([*project["dependencies"], *(line for extra in extras for line in extra)])


def read_lock() -> dict[str, str]:
    """Return name and version of every line of requirements.lock that pins."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return read_pins([line.removesuffix(" \\") for line in lines if line[:1].isalnum()])


def read_conda() -> tuple[list[str], list[str]]:
    """Return what environment.yml takes from conda and what from pip."""
    found = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    conda = [item for item in found if isinstance(item, str)]
    return conda, [line for item in found if isinstance(item, dict) for line in item["pip"]]


def read_pins(lines: list[str]) -> dict[str, str]:
    """Return normalised name and version of lines `name==version`; every line must be one."""
    pins = [re.fullmatch(r"([A-Za-z0-9._-]+)==([^ ;]+)(?: ;.*)?", line) for line in lines]
    assert all(pins), [line for line, pin in zip(lines, pins, strict=True) if not pin]
    return {re.sub(r"[._-]+", "-", pin[1]).lower(): pin[2] for pin in pins if pin}


def test_lock_pins_what_pyproject_names() -> None:
    project, lock = read_project(), read_lock()
    torch = project.pop("torch")
    assert project == {name: lock.get(name) for name in project}
    assert "torch" not in lock, "torch comes from an index of its own"
    assert torch == read_makefile_torch()


def test_lock_has_a_hash_for_every_pin() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", text[text.index("==") :])
    assert len(entries) == len(read_lock())
    assert all("--hash=sha256:" in entry for entry in entries)


def test_locked_libraries_run_on_the_oldest_python_that_debian_has() -> None:
    needed = {name: distribution(name).metadata.get("Requires-Python") for name in read_lock()}
    assert not {
        name: text for name, text in needed.items() if "3.11.2" not in SpecifierSet(text or "")
    }


def test_lock_has_no_gpu_libraries() -> None:
    assert not [name for name in read_lock() if name.startswith(("nvidia", "cuda", "triton"))]


def test_environment_file_names_the_same_versions() -> None:
    conda, pip = read_conda()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "python=3.11" in conda
    assert project["project"]["requires-python"].startswith(">=3.11,")
    assert "-r requirements.lock" in pip
    assert read_pins([line for line in pip if line[0] != "-"]) == {"torch": read_makefile_torch()}


TARGETS = ["help", "demo", "test", "lint", "docs", "check", "tables", "mlflow"]


@pytest.mark.parametrize("target", TARGETS)
def test_make_shows_its_targets(target: str) -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True
    )
    assert shown.returncode == 0
    assert re.search(rf"^{target} +\w", shown.stdout, re.MULTILINE)


def read_makefile_torch() -> str:
    """Return the version of torch that the Makefile installs, without `+cpu`."""
    found = re.search(
        r"^TORCH := torch==([\d.]+)\+cpu$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M
    )
    assert found
    return found[1]
