"""Bring the members of a group together, in one folder that a stage can depend on."""

import logging
import shutil
from pathlib import Path

from nlp_core.config.base import CELL, PROCESSED
from nlp_core.data.corpus import read_any_task
from nlp_core.errors import DataError
from nlp_core.files import replacing_folder

log = logging.getLogger(__name__)


def gather_member(member: Path, group: Path) -> None:
    """Copy a processed task, or a trained cell, into the folder of a group.

    Raises:
        DataError: the task is not processed or has no examples; the cell is not trained to its end.
    """
    if member.parent == Path(PROCESSED):
        read_any_task(member)
    elif not (member / CELL).exists():
        raise DataError(
            f"{member / CELL}: no such file, so the cell '{member.name}' is not trained yet, or "
            f"not to its end; run `dvc repro finetune@{member.name}`."
        )
    with replacing_folder(group / member.name) as folder:
        shutil.copytree(member, folder, dirs_exist_ok=True)
    log.info("gather done member=%s group=%s", member, group)
