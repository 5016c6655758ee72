"""`reglue doctor`: check this machine and this project: numbers, locks, libraries, disk.

Run the numeric probe (about a second) and compare it with the committed one, reports/probe.json.
Compare the libraries with requirements.lock, look for what killed runs left, and check caches, disk
and mirror. Stale locks and half-written files are removed with --mend, or after a question, and a
dvc.lock that a kill has cut is restored. Exit code 1 if an operation differs or something stale is
left.

Examples:
    reglue doctor
    reglue doctor --mend
"""

import argparse
import platform
import sys
from contextlib import suppress
from pathlib import Path

from nlp_core.cli.output import print_json
from nlp_core.cli.workplace import Check, check_workplace, mend
from nlp_core.errors import UsageError
from nlp_core.files import write_json
from nlp_core.processor import name_processor

PROBE = Path("reports/probe.json")
EXIT_DIFFERENT = 1
YES = ("y", "yes")
GROUP = "reproduce tables"
PLACE = 8
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accept", action="store_true", help="keep this machine's probe as the committed one"
    )
    parser.add_argument(
        "--mend", action="store_true", help="remove or restore what killed runs left"
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

    checks = _mend(check_workplace(Path()), options)
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
                "checks": [
                    {"name": check.name, "state": check.state, "found": check.found}
                    for check in checks
                ],
            }
        )
    elif options.accept:
        print(f"{PROBE}: kept.")
    else:
        if "probe" not in machine:
            print("REGLUE_DEVICE asks for a GPU: its numbers are its own and carry its name.")
        _show(moved, len(names), machine["isa"])
        _show_checks(checks)
    if moved or any(check.paths for check in checks):
        raise SystemExit(EXIT_DIFFERENT)


def _mend(checks: list[Check], options: argparse.Namespace) -> list[Check]:
    """Mend what is stale if that is asked for, and return the checks that hold now."""
    remedies = [f"{path}: {check.remedy}" for check in checks for path in check.paths]
    if not remedies:
        return checks
    is_asked = not (options.mend or options.json) and sys.stdin.isatty()
    if is_asked:
        print("\n".join(remedies))
        answer = ""
        with suppress(EOFError):
            answer = input("Remove or restore these? [y/N] ")
        options.mend = answer.strip().lower() in YES
    if not options.mend:
        return checks
    mend(checks)
    if not (options.json or is_asked):
        print("\n".join(remedies))
    return check_workplace(Path())


def _show_checks(checks: list[Check]) -> None:
    for check in checks:
        print(f"{check.name}: {check.state}, {check.found}.")
    if any(check.paths for check in checks):
        print("`reglue doctor --mend` mends what is stale.")


def _show(moved: list[str], num_operations: int, instruction_set: str) -> None:
    if not moved:
        print(f"All {num_operations} operations agree: this machine gives the committed bytes.")
        return
    print(f"{len(moved)} of {num_operations} operations differ: {', '.join(moved)}.")
    if instruction_set != "avx2":
        print(f"This processor ({platform.machine()}) has no AVX2, which the committed bytes need.")
    print("Cells trained here get another fingerprint; `reglue verify` compares their scores only.")
