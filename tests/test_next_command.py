"""Commands that are printed can be pasted into a shell as they are."""

import gzip
import shlex
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.cli.output import join_command
from tests.tiny_encoder import write_encoder
from tests.user_commands import fail
from tests.user_files import SMALL, write_tsv

pytestmark = pytest.mark.usefixtures("place")


def test_a_path_with_a_leading_dash_is_no_option() -> None:
    assert join_command(["train", Path("-a.tsv"), "--dev", "x"]) == "reglue train ./-a.tsv --dev x"
    assert join_command(["retrieve", Path("a b"), Path("/-c")]) == "reglue retrieve 'a b' /-c"


def test_train_and_new_print_commands_that_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "-rev.tsv", header="text\tlabel")
    main(["new", "classification", "--train", "./-rev.tsv", "-o", "./-m.json"])
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown == "Next: reglue train ./-m.json --train ./-rev.tsv"
    _, _, *words = shlex.split(shown)
    main([*words, "-o", "./-out", "--epochs", "1", *SMALL])
    after = capsys.readouterr().out.partition("Next: ")[2]
    wanted = "reglue export ./-out --data ./-rev.tsv --to ./-out.bundle"
    assert wanted in [line.strip() for line in after.splitlines()]
    assert "reglue predict ./-out --data NEW.tsv -o PREDICTED.tsv" in after
    page = (place / "-out/report.md").read_text()
    assert "reglue train ./-out/model.json --train ./-rev.tsv" in page
    message = fail(capsys, "train", "./-rev.tsv", "--init", "./-out")
    assert "reglue train ./-out/model.json --train ./-rev.tsv --init ./-out." in message


def test_an_archive_keeps_its_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = write_tsv(place / "rev.tsv", header="text\tlabel").read_bytes()
    (place / "rev.tsv.gz").write_bytes(gzip.compress(text))
    main(["train", "rev.tsv.gz", "-o", "out", "--epochs", "1", *SMALL])
    assert "reglue export out --data rev.tsv.gz --to out.bundle" in capsys.readouterr().out
    assert "reglue train out/model.json --train rev.tsv.gz" in (place / "out/report.md").read_text()


def test_index_quotes_names_with_spaces(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_encoder(place).rename("an encoder")
    (place / "t.txt").write_text("a tasty soup\na bed\n")
    main(["index", "an encoder", "--data", "t.txt", "-o", "a b.index"])
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown == "Next: reglue retrieve 'an encoder' 'a b.index' 'a query'"
    main(shlex.split(shown)[2:])
