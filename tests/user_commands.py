"""Commands as a user runs them on files, and the folder of a model that they trained."""

import json
from pathlib import Path

import pytest

from nlp_core.cli import main
from tests.user_files import QUICK, write_tsv


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of five labels, and the files it was made from."""
    folder = tmp_path_factory.mktemp("trained")
    train = write_tsv(folder / "train.tsv", rows=100, header="text\tlabel")
    dev = write_tsv(folder / "dev.tsv", rows=30, seed=1, header="text\tlabel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGLUE_CACHE", str(folder / "cache"))
        model = str(folder / "model.json")
        main(["new", "classification", "--train", str(train), "-o", model])
        files = ["--train", str(train), "--dev", str(dev)]
        main(["train", model, *files, "-o", str(folder / "out"), *QUICK])
    return folder


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail, and return its one paragraph."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: ")
    assert "Traceback" not in "".join(lines)
    return lines[-1]


def learn(template: str, path: Path, *options: str) -> dict[str, float]:
    """Go from a file to its predictions, p.*, and return the metrics of the part held out."""
    main(["new", template, "--train", path.name, "-o", "m.json"])
    main(["train", "m.json", "--train", path.name, "-o", "out", *options])
    main(["predict", "out", "--data", path.name, "-o", f"p{path.suffix}"])
    metrics = json.loads(Path("out/metrics.json").read_text())["metrics"]["dev"]
    return dict(metrics)
