"""`reglue search`: search the values of a model and its recipe on the development data.

Try values of a space, trial by trial, and train the best ones again as a model. The reported split
is measured once, for the winner. The same command resumes a killed search.

Examples:
    reglue search reviews.json --train reviews.tsv --space space.yaml --trials 20
    reglue search wikiqa cnn --space zoo/wikiqa/cnn_space.yaml --trials 20 --jobs 2
"""

import argparse
import multiprocessing
import shutil
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

from nlp_core.cli.output import print_json, show_log, show_metrics
from nlp_core.cli.training_files import (
    add_inputs,
    add_output,
    check_seed,
    read_inputs,
    read_own_model,
)
from nlp_core.config.base import check_known, read_config, read_mapping
from nlp_core.config.model import format_model, parse_model
from nlp_core.config.params import read_params
from nlp_core.config.space import SpaceConfig
from nlp_core.errors import TrainingError, UsageError
from nlp_core.files import (
    check_replaceable,
    digest_file,
    digest_json,
    digest_path,
    write_json,
    write_text,
)
from nlp_core.report.search import draw_search
from nlp_core.training.processes import end_with_parent
from nlp_core.training.run import Run
from nlp_core.training.searched import WINNER, Document, Searched, read_metrics, search_cell
from nlp_core.training.seed_run import find_objective, train_run, train_trial
from nlp_core.training.study import Search, Watch
from nlp_core.training.user_model import check_model, read_training, read_user_run

DEFAULT_FOLDER = Path("artifacts/search")
STARTED, RESULT, BEST = "started.json", "search.json", "best"
OF_MODEL_FILES = [
    "train",
    "dev",
    "test",
    "init",
    "vectors",
    "max_vectors",
    "epochs",
    "batch_size",
    "lr",
    "out_of_scope",
    "plugin",
    "set",
]
"""Options that a cell has no use for."""
GROUP = "train on your own file"
PLACE = 3
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "model",
        nargs="+",
        metavar="MODEL",
        help="a model file, or a table of grid/ and its cell",
    )
    add("--space", type=Path, required=True, metavar="FILE.yaml", help="the values to search")
    add("--trials", type=int, default=20, metavar="N", help="trials, with those of earlier runs")
    add("--jobs", type=int, default=1, metavar="N", help="trials to train at the same time")
    add("--search-seed", type=int, default=1, metavar="N", help="seed of the values drawn")
    add_output(parser, DEFAULT_FOLDER, "overwrite another search")
    add_inputs(parser)


def run(options: argparse.Namespace) -> None:
    show_log()
    for name in ("trials", "jobs"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name}: found {getattr(options, name)}, expected 1 or more.")
    if options.search_seed < 0:
        raise UsageError(f"--search-seed: found {options.search_seed}, expected 0 or more.")
    searched, search = _read_search(options)
    key = {
        "space": {path: item.model_dump(mode="json") for path, item in search.space.values.items()},
        "searched": searched.digest,
        "seed": search.seed,
    }
    _prepare(search, digest_json(key), force=options.force)
    with search.hold():
        if options.jobs == 1:
            search.work(options.trials)
        else:
            work_together(options)
        note = _finish(searched, search, options.space, options.test)
    if options.json:
        print_json(note)
        return
    show_metrics(note["metrics"])
    print(
        f"\n{search.output}: trial {note['winner']['number']} of {len(note['trials'])} is best: "
        f"{note['split']} {note['metric']} {note['winner']['score']:.2f}."
    )
    if note["default"] is not None:
        print(f"The model's own values, trial 0: {note['default']:.2f}.")


def work_together(options: argparse.Namespace) -> None:
    """Run trials in several processes.

    Raises:
        TrainingError: one of them was killed.
    """
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(options.jobs, context) as pool:
            for job in [pool.submit(_work, options) for _ in range(options.jobs)]:
                job.result()
    except BrokenProcessPool as err:
        raise TrainingError(
            f"search: found that one of {options.jobs} jobs was killed, expected all to stay to "
            "the end; memory may be short. The same command goes on, with fewer --jobs if need be."
        ) from err


def _work(options: argparse.Namespace) -> None:
    end_with_parent()  # its trial is then resumed
    show_log()
    options.test = None  # checked before, and measured at the end
    _read_search(options)[1].work(options.trials)


def _read_search(options: argparse.Namespace) -> tuple[Searched, Search]:
    """Read and check all that a search needs, before it writes anything."""
    space = read_config(options.space, SpaceConfig)
    output = options.output or DEFAULT_FOLDER / Path(options.model[-1]).stem
    searched = _read_searched(options)
    searched.check_space(space, str(options.space))
    objective = find_objective(searched.build(searched.document))

    def train(values: dict[str, Any], folder: Path, watch: Watch) -> float:
        run = searched.build(searched.change(values))
        return train_trial(run, searched.seed, folder / "checkpoint.safetensors", watch)

    seed, defaults = options.search_seed, searched.find_defaults(space)
    return searched, Search(train, space, objective, seed, output, defaults)


def _read_searched(options: argparse.Namespace) -> Searched:
    if len(options.model) == 2:
        return _read_cell(options)
    if len(options.model) > 2 or options.train is None:
        raise UsageError(
            "reglue search: expected a model file and --train FILE, or a table and a cell."
        )
    path = Path(options.model[0])
    inputs = read_inputs(options, str(path), lambda _: read_own_model(path, options))

    where = inputs.where
    files = {name: path for name, path in inputs.files.items() if name != "test"}
    if "test" in inputs.files:  # a mistake in it must not wait for the last trial
        read_user_run(where, inputs.model, inputs.files, Path(), **inputs.rest)
    base = read_user_run(where, inputs.model, files, Path(where).with_suffix(""), **inputs.rest)

    def build(document: Document) -> Run:
        config = parse_model(document, where)
        plan = check_model(config, where, inputs.init, inputs.start)
        return replace(base, plan=plan, model=document, **read_training(config))

    return Searched(
        *(where, base.model, base.key, base.seed),
        build=build,
        build_measured=lambda document, output: read_user_run(
            where, document, inputs.files, output, **inputs.rest
        ),
        list_files=lambda document: {f"{WINNER}.json": format_model(document)},
    )


def _read_cell(options: argparse.Namespace) -> Searched:
    given = [name for name in OF_MODEL_FILES if getattr(options, name) not in (None, [])]
    if given:
        raise UsageError(
            f"--{given[0].replace('_', '-')}: is for a model file; a cell has its own data and "
            "values."
        )
    check_seed(options.seed)
    table, name = options.model
    params = read_params(Path("params.yaml"))
    params.check_table(table)
    known = [key for key, item in params.experiments.items() if item.table == table]
    check_known(f"grid/{table}.yaml", "cell", name, known, UsageError)
    return search_cell(name, params, options.seed)


def _prepare(search: Search, key: str, *, force: bool) -> None:
    """Make the folder of a search, unless it holds this one already.

    Raises:
        TrainingError: another search runs there.
        UsageError: the folder holds something else.
    """
    output = search.output
    started = output / STARTED
    if started.exists() and read_mapping(started)["key"] == key:
        return
    check_replaceable(output, marker=STARTED, name="search", option="-o", force=force)
    with search.hold():
        pass
    folder = output.resolve()  # of a link, what it leads to
    shutil.rmtree(folder)
    folder.mkdir()
    write_json(started, {"key": key})


def _finish(searched: Searched, search: Search, space: Path, test: Path | None) -> dict[str, Any]:
    """Train the winner, unless it is trained and measured, and write what the search found."""
    study, output = search.open(), search.output
    outcomes = search.list_outcomes(study)
    winner = search.find_winner(outcomes)
    digest, tested = digest_file(space), None if test is None else digest_path(test)
    source = (
        f"tuned by reglue search on {search.objective.split} {search.objective.metric}: trial "
        f"{winner.number} of {len(outcomes)}, seed {search.seed}, space sha256 {digest[:16]}"
    )
    document = searched.change(winner.values, source)
    done, best = output / RESULT, output / BEST
    kept = read_mapping(done) if done.exists() and best.exists() else {}
    known = kept.get("winner"), len(kept.get("trials", [])), kept.get("test_sha256")
    if known != (winner._asdict(), len(outcomes), tested):
        done.unlink(missing_ok=True)
        final = searched.build_measured(document, best)
        checkpoint = output / f"{BEST}-{winner.number}.safetensors"
        train_run(final, searched.seed, best, checkpoint)
    for name, text in searched.list_files(document).items():
        write_text(output / name, text)
    importance = search.measure_importance(study)
    (output / "search.svg").write_bytes(draw_search(outcomes, importance, search.objective))
    note = {
        "space": read_mapping(space),
        "space_sha256": digest,
        "test_sha256": tested,
        "seed": search.seed,
        "training_seed": searched.seed,
        "metric": search.objective.metric,
        "split": search.objective.split,
        "trials": [item._asdict() for item in outcomes],
        "winner": winner._asdict(),
        "default": next((one.score for one in outcomes if one.values == search.defaults), None),
        "importance": importance,
        "metrics": read_metrics(best),
    }
    write_json(done, note, exact=True)
    return note
