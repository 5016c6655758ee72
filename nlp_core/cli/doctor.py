"""`reglue doctor`: check whether this machine computes the committed bytes.

Run the numeric probe (about a second) and compare it with the committed one, reports/probe.json.
Exit code 1 if an operation differs.

Examples:
    reglue doctor
    reglue doctor --accept
"""

import argparse
import platform
from pathlib import Path

from nlp_core.cli.output import print_json
from nlp_core.errors import UsageError
from nlp_core.files import write_json
from nlp_core.processor import name_processor

PROBE = Path("reports/probe.json")
EXIT_DIFFERENT = 1
GROUP = "reproduce tables"
PLACE = 7
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accept", action="store_true", help="keep this machine's probe as the committed one"
    )


def run(options: argparse.Namespace) -> None:
    # two seconds of torch
    from nlp_core.probe import run_probe
    from nlp_core.report.results import Record, read_record
    from nlp_core.training.determinism import describe_machine

    class CommittedProbe(Record):
        """The content of reports/probe.json."""

        digest: str
        operations: dict[str, str]

    found, machine = run_probe(), describe_machine()
    if not options.json:
        shown = ", ".join(f"{key} {value}" for key, value in sorted(machine.items()))
        print(f"Processor: {name_processor()}. Fingerprint: {shown}.")
    if options.accept:
        write_json(PROBE, {"digest": found.digest, "operations": dict(found.operations)})
    if not PROBE.exists():
        raise UsageError(
            f"{PROBE.resolve()}: found no committed probe. Go to the root of a project with tables."
        )
    committed = read_record(PROBE, CommittedProbe, command="reglue doctor --accept")
    names = [*committed.operations, *(set(found.operations) - set(committed.operations))]
    moved = [n for n in names if found.operations.get(n) != committed.operations.get(n)]
    if options.json:
        print_json(
            {
                "processor": name_processor(),
                "fingerprint": machine,
                "operations": len(names),
                "different": moved,
            }
        )
    elif options.accept:
        print(f"{PROBE}: kept.")
    else:
        if "probe" not in machine:
            print("REGLUE_DEVICE asks for a GPU: its numbers are its own and carry its name.")
        _show(moved, len(names), machine["isa"])
    if moved:
        raise SystemExit(EXIT_DIFFERENT)


def _show(moved: list[str], num_operations: int, instruction_set: str) -> None:
    if not moved:
        print(f"All {num_operations} operations agree: this machine gives the committed bytes.")
        return
    print(f"{len(moved)} of {num_operations} operations differ: {', '.join(moved)}.")
    if instruction_set != "avx2":
        print(f"This processor ({platform.machine()}) has no AVX2, which the committed bytes need.")
    print("Cells trained here get another fingerprint; `reglue verify` compares their scores only.")
