"""Bring processed tasks together that are trained together."""

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from nlp_core.data.corpus_task import read_any_task
from nlp_core.files import MANIFEST, replacing_folder, write_json

log = logging.getLogger(__name__)


def gather_tasks(group: str, members: Sequence[str], data_dir: Path = Path("data")) -> None:
    """Write data/processed/<group>/ with a folder for each task, and a manifest of them.

    Args:
        group: what the tasks are called together.
        members: the tasks.
        data_dir: the folder that holds processed/.

    Raises:
        DataError: a task is not processed, or is none with examples.
    """
    processed = data_dir / "processed"
    tasks = [read_any_task(processed / name) for name in members]
    with replacing_folder(processed / group) as folder:
        for task in tasks:
            shutil.copytree(task.folder, folder / task.name)
        digests = {task.name: f"sha256:{task.digest}" for task in tasks}
        write_json(folder / MANIFEST, {"task": group, "kind": "group", "tasks": digests})
    log.info("gather done group=%s tasks=%s", group, ",".join(members))
