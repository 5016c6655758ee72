"""Traits of each example by which scores are sliced: length, unseen words, overlap with train.

`results/traits/TASK.parquet` has a row for each example of each split other than train and what
was held out of it, and the digest of the task's data. It holds no text.
"""

from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nlp_core.config.dataset import HELD_OUT
from nlp_core.data.audit.audit import Audit
from nlp_core.data.audit.key import SplitKeys, split_words
from nlp_core.data.audit.unit import list_sorts, list_units
from nlp_core.errors import DataError
from nlp_core.files import name_local, replacing

FOLDER = Path("results/traits")
DATA = b"data"
"""Where the metadata of the file has the digest of the task's data."""
COLUMNS = {"id": pa.int32(), "words": pa.int32(), "unseen": pa.int32(), "in_train": pa.bool_()}
SCHEMA = pa.schema({"split": pa.string(), **COLUMNS})


class Traits(NamedTuple):
    """The traits of N examples of a split.

    Attributes:
        id: row in the official file; of a question with candidates that of its first row, [N].
        words: their number in all texts of the example, without punctuation, [N].
        unseen: how many of these words no text of train has, nor what was held out of it, [N].
        in_train: whether train or what was held out of it has the same texts, normalised, [N].
    """

    id: NDArray[np.int32]
    words: NDArray[np.int32]
    unseen: NDArray[np.int32]
    in_train: NDArray[np.bool_]


def find_traits(task: str, root: Path) -> Path:
    return root / FOLDER / f"{task}.parquet"


def list_traits(audit: Audit) -> pa.Table:
    """Return the traits of the audited examples; the splits are read again."""
    sort, train = list_sorts(audit.kind)[0], next(iter(audit.splits))
    seen, known = set[str](), SplitKeys()
    parts = [SCHEMA.empty_table()]
    for split, read in audit.splits.items():  # train and what was held out of it come first
        is_known = split in {train, HELD_OUT}
        own, ids, unseen = SplitKeys(), list[int](), list[int]()
        for unit in list_units(audit.kind, read()):
            words = [*chain.from_iterable(map(split_words, unit.texts))]
            if is_known:
                seen.update(words)
            if unit.sort == sort:
                own.add(unit)
                ids.append(unit.place)
                unseen.append(sum(word not in seen for word in words))
        if is_known:
            known = SplitKeys.join([known, own])
            continue
        in_train = np.isin(own.normalised, known.normalised)
        columns = [[split] * len(ids), ids, own.lengths.astype(np.int32), unseen, in_train]
        parts.append(pa.table(columns, schema=SCHEMA))
    return pa.concat_tables(parts).replace_schema_metadata({DATA: audit.data})


def write_traits(path: Path, table: pa.Table) -> None:
    with replacing(path) as temporary:
        pq.write_table(table, name_local(temporary), compression="zstd", compression_level=19)


def read_traits(path: Path, split: str) -> Traits:
    """Read the traits of a split; raise DataError if the file is not what the audit writes."""
    try:
        table = pq.read_table(name_local(path))
        found = "found other columns or no digest of the data"
    except (pa.ArrowException, OSError) as err:
        table, found = None, f"found no readable parquet file ({str(err).splitlines()[0]})"
    if table is None or DATA not in (table.schema.metadata or {}) or table.schema != SCHEMA:
        raise DataError(
            f"{path}: {found}, expected traits of examples; take the committed file from Git "
            f"again, or run `reglue data audit {path.stem} --keep`."
        )
    return select_traits(table, split)


def select_traits(table: pa.Table, split: str) -> Traits:
    """Return what `list_traits` found for a split."""
    rows = table.filter(pc.equal(table["split"], split))
    return Traits(*(rows[name].to_numpy() for name in COLUMNS))
