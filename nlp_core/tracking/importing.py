"""Import every finished cell and encoder into MLflow."""

import logging
from collections import Counter
from pathlib import Path

from nlp_core.tracking.runs import collect_cells
from nlp_core.tracking.store import open_store

log = logging.getLogger(__name__)


def import_runs(root: Path, database: Path) -> Counter[str]:
    """Import the runs of a project and return how many cells were added, replaced and kept.

    A cell is one run with one nested run a seed, in an experiment named like its table; so is an
    encoder that was pretrained here. A cell whose files changed since
    replaces the older runs, which MLflow keeps as deleted.

    Args:
        database: MLflow's SQLite file; it is made when missing.

    Raises:
        ConfigError: params.yaml is wrong.
    """
    counts: Counter[str] = Counter()
    cells = [*collect_cells(root)]
    with open_store(database) as store:
        for cell in cells:
            change = store.put(cell)
            counts[change] += 1
            log.info(
                "track %s table=%s cell=%s seeds=%d", change, cell.table, cell.cell, len(cell.seeds)
            )
    log.info("track done added=%(added)d replaced=%(replaced)d kept=%(kept)d", counts)
    return counts
