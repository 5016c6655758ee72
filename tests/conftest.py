"""Check tensor shapes and types in blocks and heads while tests run; production pays nothing."""

import nlp_core  # isort: skip  # noqa: F401  # pins the instruction set before torch is imported

import logging
import os
import platform
import shutil
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_SECONDS = 60
SEED = "REGLUE_TEST_SEED"
# Each of these files takes a minute or longer. Started first, they leave no worker idle at the end.
LONG = (
    "test_determinism",
    "test_workflow",
    "test_interrupted_engines",
    "test_written_files",
    "test_pretraining_processes",
    "test_tutorials",
    "test_site",
    "test_processes",
    "test_examples",
    "test_statistics",
)

# on a busy machine an example takes longer than the 200 ms that hypothesis allows
settings.register_profile("reglue", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("reglue")
install_import_hook(["nlp_core.blocks", "nlp_core.heads"], "beartype.beartype")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: idx for idx, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONG)))
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return
    for item in items:
        if item.get_closest_marker("linux"):
            item.add_marker(pytest.mark.skip(reason="needs Linux on an x86-64 processor"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed of the test's own; a failure shows it, and REGLUE_TEST_SEED replaces it."""
    given = os.environ.get(SEED)
    value = int(given) if given else zlib.crc32(request.node.nodeid.encode())
    request.node.add_report_section("setup", "seed", f"run it again with {SEED}={value}")
    return value


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `reglue train` start no further process, which takes seconds, unless a test asks."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")


@pytest.fixture
def deterministic() -> Iterator[None]:
    """Let torch raise where an operation has no deterministic kernel."""
    import torch

    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a cache of its own; log handlers and registries are put back."""
    from nlp_core.models.plugin import REGISTRIES

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_items", dict(registry._items))
    handlers, level = logging.root.handlers[:], logging.root.level
    yield tmp_path
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture(scope="session")
def site_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this project's results."""
    from nlp_core.site.build import write_site

    folder = tmp_path_factory.mktemp("site") / "html"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        write_site(ROOT, folder)
    return folder


@pytest.fixture
def page() -> Iterator[Any]:  # Any: playwright is not always installed
    """A page of a browser without a window; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser was found: {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=path, args=arguments)
        found = browser.new_page()
        found.set_default_timeout(1000 * BROWSER_SECONDS)
        yield found
        browser.close()
