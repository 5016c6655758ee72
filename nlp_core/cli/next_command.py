"""What `reglue train` prints at its end: the confidence, and the commands that use the model."""

import argparse
from pathlib import Path

from nlp_core.cli.output import join_command
from nlp_core.config.base import read_mapping
from nlp_core.data.user_task import UserTask
from nlp_core.prediction.trained_folder import CALIBRATION, MODEL, PAGE
from nlp_core.training.user_run import UserRun


def show_calibration(output: Path) -> None:
    """Print what was fitted to the confidence, if anything."""
    path = output / CALIBRATION
    if not path.is_file():
        return
    note = read_mapping(path)
    before, after = (100 * note[key] for key in ("error_before", "error"))
    shown = f"{after:.1f} % ({before:.1f} % without it)"
    if note["temperature"] == 1:
        shown = f"{after:.1f} % (no other temperature is better)"
    print(
        f"Confidence: temperature {note['temperature']:.2f}, expected calibration error {shown}, "
        f"on {note['examples']} rows held out."
    )
    if not note["right_kept"] and "out_of_scope" not in note:
        print("No right answer was held out, so no threshold is chosen for --abstain-below.")
    if note.get("abstain_below") is None:
        return
    right, wrong = (100 * note[key] for key in ("right_kept", "wrong_kept"))
    print(
        f"--abstain-below {note['abstain_below']:.2f} (auto) keeps {right:.0f} % of the right "
        f"answers and {wrong:.0f} % of the wrong ones."
    )
    if "out_of_scope" in note:
        share = ""
        if "outside_below" in note:
            share = f", as of {100 * note['outside_below']:.0f} % of the "
            share += f"{note['outside_examples']} rows out of scope"
        print(f"With less confidence the answer is '{note['out_of_scope']}'{share}.")


def list_next(run: UserRun, output: Path) -> list[str]:
    """Return the commands that use the trained folder."""
    plugins: list[object] = [part for item in run.plugins for part in ("--plugin", Path(item.path))]
    if run.task.kind.is_searched:
        return [join_command(["index", output, *plugins])]
    data = run.files["train"]
    named: list[list[object]] = [
        ["predict", output, *plugins],
        ["predict", output, "--data", f"NEW{data.suffix}", "-o", f"PREDICTED{data.suffix}"],
    ]
    named[-1] += plugins
    if not run.task.kind.has_tree:
        bundle = Path(f"{output}.bundle")
        named += [["export", output, "--data", data, "--to", bundle, *plugins], ["serve", bundle]]
    return [join_command(words) for words in named]


def write_page(run: UserRun, options: argparse.Namespace) -> None:
    """Write the page of the run, with the command that trains the same model again."""
    again: list[object] = ["train", run.output / MODEL, "--train", options.train]
    for name in ("dev", "test", "init", "vectors", "max_vectors", "seed"):
        value = getattr(options, name)
        value = Path(value) if name == "init" and value else value
        again += [f"--{name.replace('_', '-')}", value] if value is not None else []
    again += [part for item in run.plugins for part in ("--plugin", Path(item.path))]
    title = f"{run.name}: {run.model.get('description', 'a trained model')}"
    commands = [join_command([*again, "-o", "AGAIN"]), *list_next(run, run.output)]
    # Jinja2 and the audit are only needed here
    from nlp_core.site.run_page import write_run_page

    assert isinstance(run.task, UserTask), run.name
    write_run_page(run.task, run.output, title, commands)


def print_next(run: UserRun, output: Path) -> None:
    first, *others = list_next(run, output)
    print("\n".join([f"Next: {first}", *(f"      {command}" for command in others)]))
    print(f"See {output / PAGE} for intervals, curves, errors and repeats in the data.")
