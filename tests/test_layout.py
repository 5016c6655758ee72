"""What the project's root holds."""

from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_no_top_level_folder_shadows_a_library() -> None:
    installed = packages_distributions()
    shadowed = {
        path.name: installed[path.name]
        for path in ROOT.iterdir()
        if path.is_dir() and set(installed.get(path.name, [])) - {"reglue"}
    }
    assert shadowed == {}
    libraries = {"datasets", "evaluate", "tokenizers", "transformers"}
    assert libraries.isdisjoint(path.name for path in ROOT.iterdir())
