"""Cross-validation, seeds and class weights of `reglue train`."""

import json
from pathlib import Path
from typing import Any

import pytest

from nlp_core.cli import main, train
from nlp_core.training import control
from nlp_core.training.control import RunControl
from nlp_core.training.user_run import UserRun, train_user_run
from tests.user_commands import fail
from tests.user_files import SMALL, write_tsv

OPTIONS = [*SMALL, "--epochs", "1", "-o", "out"]


def test_each_row_is_in_one_fold(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tsv(place / "a.tsv", rows=40)
    (place / "out.folds").mkdir()
    (place / "out.folds/mine.txt").touch()
    main(["train", "a.tsv", *OPTIONS, "--folds", "3"])
    output = capsys.readouterr()
    assert "95 % interval" in output.out
    rows = [line for line in output.err.splitlines() if line.startswith("train split name=test")]
    assert sum(int(line.rpartition("=")[2]) for line in rows) == 40
    found = json.loads((place / "out/folds.json").read_text())["accuracy"]
    assert len(found["values"]) == 3
    assert found["low"] <= found["mean"] <= found["high"]
    assert [path.name for path in (place / "out.folds").iterdir()] == ["mine.txt"]


def test_seeds_share_the_rows_that_are_held_out(place: Path) -> None:
    write_tsv(place / "a.tsv", rows=40)
    main(["train", "a.tsv", *OPTIONS, "--seeds", "2", "--seed", "3"])
    found = json.loads((place / "out/seeds.json").read_text())["accuracy"]
    alone = json.loads((place / "out/metrics.json").read_text())["metrics"]["dev"]["accuracy"]
    assert found["values"][0] == pytest.approx(alone)
    assert len(found["values"]) == 2
    assert json.loads((place / "out/run.json").read_text())["seed"] == 3
    assert not (place / "out.seeds").exists()


def test_the_interval_of_folds_is_that_of_their_mean(place: Path) -> None:
    numbers = [f"w{n % 5} x y {n}\t{n % 5 + n / 100:.2f}\n" for n in range(60)]
    (place / "n.tsv").write_text("".join(numbers))
    options = ["--kind", "regression", "--folds", "3", *SMALL, "--epochs", "8", "-o", "out"]
    main(["train", "n.tsv", *options])
    for metric, found in json.loads((place / "out/folds.json").read_text()).items():
        assert found["mean"] == pytest.approx(sum(found["values"]) / 3), metric
        assert found["low"] < found["mean"] < found["high"], metric


@pytest.mark.parametrize("option", ["--folds", "--seeds"])
def test_an_interrupted_command_goes_on(
    place: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tsv(place / "a.tsv", rows=40)
    command = ["train", "a.tsv", *OPTIONS, option, "3"]
    main(command)
    whole = {path.name: path.read_bytes() for path in (place / "out").iterdir() if path.is_file()}
    trained = []

    def train_some(run: UserRun, given: RunControl) -> dict[str, Any]:
        if len(trained) == 1:
            trained.append(None)
            raise KeyboardInterrupt
        trained.append(run.output.name)
        return train_user_run(run, given)

    monkeypatch.setattr(train, "train_user_run", train_some)
    again = [*command[:-3], "new", *command[-2:]]
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        main(again)
    assert not (place / "new").exists()
    main(again)
    parts = ["fold-1", "fold-2"] if option == "--folds" else ["seed-3"]
    assert trained[2:] == [*parts, "new"]
    name = f"{option.removeprefix('--')}.json"
    assert (place / "new" / name).read_bytes() == whole[name]
    assert (place / "new/model.safetensors").read_bytes() == whole["model.safetensors"]
    assert not (place / f"new.{name.removesuffix('.json')}").exists()


def test_rare_labels_weigh_more(place: Path) -> None:
    lines = [f"a b {n}\t{'rare' if n % 5 == 0 else 'usual'}\n" for n in range(50)]
    (place / "a.tsv").write_text("".join(lines))
    main(["train", "a.tsv", *OPTIONS, "--balance"])
    model = json.loads((place / "out/model.json").read_text())
    assert model["heads"]["label"]["class_weights"] == pytest.approx([2.5, 0.625])


def test_wrong_numbers_are_an_error(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tsv(place / "a.tsv", rows=20)
    train = ["train", "a.tsv", *OPTIONS]
    assert "--folds: found 1, expected 2 to 100" in fail(capsys, *train, "--folds", "1")
    assert "found --folds and --seeds" in fail(capsys, *train, "--folds", "2", "--seeds", "2")
    test = ["--folds", "2", "--test", "a.tsv"]
    assert "found --folds and --test" in fail(capsys, *train, *test)
    seeds = ["--seeds", "2", "--seed", str(2**32 - 1)]
    assert "--seeds: found 2 from --seed 4294967295 on" in fail(capsys, *train, *seeds)
    for name in ("--folds", "--seeds"):
        limit = [name, "2", "--time-limit", "1"]
        assert f"found {name} and --time-limit" in fail(capsys, *train, *limit)
        with monkeypatch.context() as patch:
            patch.setenv("WORLD_SIZE", "2")
            assert f"found {name} in processes" in fail(capsys, *train, name, "2")
    assert "expected 24 at least for 12 folds" in fail(capsys, *train, "--folds", "12")
    assert not (place / "out").exists()
    kind = ["--kind", "regression", "--balance"]
    (place / "n.tsv").write_text("".join(f"a b {n}\t{n / 7}\n" for n in range(20)))
    assert "--balance" in fail(capsys, "train", "n.tsv", *OPTIONS, *kind)


def test_further_trainings_leave_the_profile_and_the_curves_of_the_first(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def train_and_keep(run: UserRun, given: RunControl) -> dict[str, Any]:
        board = None if given.board is None else given.board / f"seed-{run.seed}"
        found.append((given.profile, board))
        return train_user_run(run)

    monkeypatch.setattr(train, "train_user_run", train_and_keep)
    monkeypatch.setattr(control, "check_board", lambda: None)
    write_tsv(place / "a.tsv", rows=20)
    command = ["train", "a.tsv", *OPTIONS, "--profile", "p", "--tensorboard", "b", "--force"]
    main([*command, "--folds", "2"])
    first = (Path("p"), Path("b/seed-1"))
    assert found == [(None, Path("b/fold-0/seed-1")), (None, Path("b/fold-1/seed-1")), first]
    found.clear()
    main([*command, "--seeds", "2"])
    assert found == [(None, Path("b/seed-2")), first]
