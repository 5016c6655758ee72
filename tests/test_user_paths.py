"""Paths as users give them: names with a colon, places where nothing can be written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.cli import main
from tests.user_files import SMALL, read_rows, write_tsv

SHORT = ["--epochs", "1", *SMALL]


@pytest.mark.parametrize("name", ["run:1", "s3:run"])
def test_a_folder_and_a_file_may_have_a_colon_in_their_names(place: Path, name: str) -> None:
    write_tsv(place / "a.tsv", header="text\tlabel")
    main(["train", "a.tsv", "-o", name, *SHORT])
    main(["test", name, "--data", "a.tsv"])
    main(["predict", name, "--data", "a.tsv", "-o", f"{name}.d/p.tsv"])
    assert len(read_rows(Path(f"{name}.d/p.tsv"))) == 60
    table = pa.Table.from_pylist(read_rows(Path("a.tsv")))
    pq.write_table(table, Path(f"{name}.d/b.parquet").resolve())
    main(["train", f"{name}.d/b.parquet", "-o", f"{name}.e", *SHORT])
    main(["predict", f"{name}.e", "--data", f"{name}.d/b.parquet", "-o", f"{name}.d/p.parquet"])
    assert pq.read_metadata(Path(f"{name}.d/p.parquet").resolve()).num_rows == 60
