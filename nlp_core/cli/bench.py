"""`reglue bench`: time bundles and trained models.

Time models in turn on the same sentences: P50, P90 and P99 in milliseconds at batch size 1, and
sentences per second in batches; with and without features. With --lengths, time bundles at each
length and batch size instead, each in a process of its own, and measure its memory.

Examples:
    reglue bench bundles/reviews --texts lines.txt --lengths 8 32 128 --csv times.csv
    reglue bench bundles/reviews --against artifacts/reviews --data later.tsv
"""

import argparse
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from nlp_core.cli.output import (
    add_plugin,
    check_output,
    open_console,
    print_json,
    show_log,
)
from nlp_core.config.export import TimingConfig
from nlp_core.data.archive import open_data
from nlp_core.data.readers.lines import read_lines
from nlp_core.data.readers.records import check_file
from nlp_core.errors import DataError, ExportError, UsageError, plural
from nlp_core.export.grid import GridTiming, load_bundle, time_grid
from nlp_core.export.latency import (
    BATCH,
    PERCENTILES,
    TimedModel,
    Timing,
    describe_hardware,
    time_models,
)
from nlp_core.files import replacing, write_text
from reglue_runtime import BundleError
from reglue_runtime.session import MOST_THREADS

COLUMNS = [
    "model",
    *(f"p{rank}_ms" for rank in PERCENTILES),
    *(f"p{rank}_ms_with_features" for rank in PERCENTILES),
    "per_second",
    "per_second_with_features",
]
GRID_COLUMNS = [
    "model",
    "length",
    "batch_size",
    *(f"p{rank}_ms" for rank in PERCENTILES),
    "per_second",
    "peak_mib",
]
SENTENCES = 500
MOST_WORDS = 100_000
"""Words of a batch with --lengths: more take gigabytes and hours."""
GROUP = "export and serve"
PLACE = 2
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("bundles", nargs="+", type=Path, metavar="BUNDLE", help="bundles to time")
    add(
        "--texts", type=open_data, metavar="FILE", help="real texts, one per line; or use --against"
    )
    add("--against", type=Path, metavar="FOLDER", help="also time this trained model in torch")
    add("--compiled", action="store_true", help="also time the trained model compiled by torch")
    add("--data", type=open_data, metavar="FILE", help="a data file for --against")
    add("--task", help="for --against: task of a multi-task cell")
    add_plugin(parser)
    add("--lengths", type=int, nargs="+", metavar="N", help="words of a text, several to compare")
    text = f"texts of a batch, with --lengths (default: 1 {BATCH})"
    add("--batch-sizes", type=int, nargs="+", metavar="N", help=text)
    for name, default, text in (
        ("--sentences", SENTENCES, "sentences to time one by one"),
        ("--batches", 20, f"batches of {BATCH} to time"),
        ("--threads", 1, "threads for each model"),
        ("--seed", 1, "seed of the order of sentences"),
    ):
        add(name, type=int, default=default, help=text)
    add("--csv", type=Path, metavar="FILE", help="write the times as CSV")
    add("--svg", type=Path, metavar="FILE", help="draw the times")


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    _check(options)
    try:
        if options.lengths is not None:
            _run_grid(options)
        else:
            _run_models(options)
    except BundleError as err:
        raise ExportError(str(err)) from err


def _run_models(options: argparse.Namespace) -> None:
    models: dict[str, TimedModel] = {}
    examples: Sequence[Any]  # Any: an example is a text, a list or a dictionary
    if options.against is None:
        examples = _read_texts(options.texts)
    else:
        examples = _add_trained(options, models)
    for folder in options.bundles:
        bundle = load_bundle(folder, options.threads)
        name = bundle.manifest.variant
        models[str(folder) if name in models else name] = bundle
    names = ("sentences", "batches", "threads")
    config = TimingConfig(runs=1, **{name: getattr(options, name) for name in names})
    timings = time_models(models, examples, config, seed=options.seed)
    hardware = describe_hardware(options.threads)
    if options.json:
        print_json({"hardware": hardware, "models": timings})
    else:
        _show(timings, hardware)
    if options.csv is not None:
        write_text(options.csv, format_csv(timings, hardware))
    if options.svg is not None:
        # Imported here: matplotlib takes a second that a table does not need.
        from nlp_core.report.latency import FigureLine, draw_latency

        lines = [FigureLine(item.name, [*item.model.values()], item.model_rate) for item in timings]
        figure = draw_latency(lines, hardware)
        with replacing(options.svg) as temporary:
            temporary.write_bytes(figure)


def _check(options: argparse.Namespace) -> None:
    targets = {"--csv": options.csv, "--svg": options.svg}
    for option, target in targets.items():
        if target is not None:
            check_output(target, options.texts or options.data or Path(), option)
    if (options.texts is None) == (options.against is None):
        raise UsageError("bench: expected one of --texts FILE and --against FOLDER.")
    if min(options.sentences, options.batches, options.threads) < 1:
        raise UsageError("bench: --sentences, --batches and --threads: expected 1 at least.")
    if options.threads > MOST_THREADS:
        raise UsageError(f"bench: --threads: found {options.threads}, at most {MOST_THREADS}.")
    if not 0 <= options.seed < 2**32:
        raise UsageError(f"bench: --seed: found {options.seed}, expected 0 to {2**32 - 1}.")
    if options.batch_sizes is not None and options.lengths is None:
        raise UsageError("bench: --batch-sizes: found without --lengths; add --lengths.")
    for name in ("data", "compiled", "task", "plugin"):
        if getattr(options, name) and options.against is None:
            raise UsageError(f"bench: --{name}: found without --against FOLDER; add --against.")


def _run_grid(options: argparse.Namespace) -> None:
    if options.against is not None or options.svg is not None:
        raise UsageError("bench: --lengths: found --against or --svg, expected only bundles.")
    if options.sentences != SENTENCES:
        raise UsageError("bench: --lengths: found --sentences, which it does not time one by one.")
    batch_sizes = options.batch_sizes or [1, BATCH]
    if min(*options.lengths, *batch_sizes) < 1:
        raise UsageError("bench: --lengths and --batch-sizes: expected 1 at least.")
    length, size = max(options.lengths), max(batch_sizes)
    size = 1 if length > MOST_WORDS else size
    if length * size > MOST_WORDS:
        raise UsageError(
            f"bench: --lengths: found {length} words in {plural(size, 'text')}, at most "
            f"{MOST_WORDS} in a batch; take less of --lengths or --batch-sizes."
        )
    points = time_grid(
        options.bundles,
        _read_texts(options.texts),
        lengths=options.lengths,
        batch_sizes=batch_sizes,
        batches=options.batches,
        threads=options.threads,
        seed=options.seed,
    )
    hardware = describe_hardware(options.threads)
    if options.json:
        print_json({"hardware": hardware, "points": points})
    else:
        table = Table(*GRID_COLUMNS, box=None)
        for point in points:
            table.add_row(*_list_cells(point))
        console = open_console(120)
        console.print(table)
        console.print(f"milliseconds of a batch, with features; MiB: peak of a process. {hardware}")
    if options.csv is not None:
        rows = [[*_list_cells(point), hardware] for point in points]
        write_text(options.csv, _format_rows([*GRID_COLUMNS, "hardware"], rows))


def _list_cells(point: GridTiming) -> list[str]:
    times = [f"{value:.3f}" for value in point.milliseconds.values()]
    rates = [f"{point.per_second:.1f}", f"{point.peak_mib:.1f}"]
    return [point.name, str(point.length), str(point.batch_size), *times, *rates]


def _format_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([columns, *rows])
    return out.getvalue()


def _add_trained(options: argparse.Namespace, models: dict[str, TimedModel]) -> Sequence[Any]:
    """Add the trained model to the models, and return its examples."""
    # Imported here: exported models are timed without torch.
    from nlp_core.export.timing import build_timed_models, list_all_examples
    from nlp_core.prediction.trained_model import TrainedModel

    trained = TrainedModel.open(options.against, task=options.task, plugins=options.plugin)
    models |= build_timed_models(trained, threads=options.threads, compiled=options.compiled)
    return list_all_examples(trained, options.data)


def _read_texts(path: Path) -> list[str]:
    check_file(path)
    texts = [line.text for line in read_lines(path) if line.text.strip()]
    if not texts:
        raise DataError(f"{path}: found no text, expected one per line.")
    return texts


def format_csv(timings: Sequence[Timing], hardware: str) -> str:
    """Return a row for each model; the last column is the hardware."""
    rows = []
    for timing in timings:
        cells = [*timing.model.values(), *timing.whole.values()]
        rates = [f"{timing.model_rate:.1f}", f"{timing.whole_rate:.1f}"]
        rows.append([timing.name, *(f"{cell:.3f}" for cell in cells), *rates, hardware])
    return _format_rows([*COLUMNS, "hardware"], rows)


def _show(timings: Sequence[Timing], hardware: str) -> None:
    ranks = [f"P{rank}" for rank in PERCENTILES]
    head = ["model", *(f"{rank} ms" for rank in ranks), *(f"{rank} +features" for rank in ranks)]
    table = Table(*head, "per second", "+features", box=None)
    for item in timings:
        cells = [f"{value:.2f}" for value in [*item.model.values(), *item.whole.values()]]
        table.add_row(item.name, *cells, f"{item.model_rate:.0f}", f"{item.whole_rate:.0f}")
    console = open_console(120)
    console.print(table)
    console.print(f"batch 1; per second at batch {BATCH}. {hardware}")
