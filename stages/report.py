"""Write the report of a table, from its results: `python -m stages.report <table>`.

`--check-golden` and `--accept-golden` compare and keep the table's exact numbers instead, and
`python -m stages.report --readme` writes the generated parts of README.md and reports/headline.svg.
"""

import argparse
from pathlib import Path

from nlp_core.errors import ConfigError
from nlp_core.report.table import write_report
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    if arguments.readme == bool(arguments.table):
        raise ConfigError("stages.report: expected either a table or --readme; give one of them.")
    # a report needs neither of the two modules
    if arguments.readme:
        from nlp_core.report.headline import update_readme

        update_readme(Path("README.md"), Path())
    elif arguments.action == "report":
        write_report(arguments.table, Path())
    else:
        from nlp_core.report.difference import accept_golden, check_golden

        act = check_golden if arguments.action == "check" else accept_golden
        act(arguments.table, Path())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="stages.report", description=__doc__)
    parser.add_argument("table", nargs="?", help="a table of grid/")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--readme", action="store_true", help="write README.md and its figure")
    add("--check-golden", dest="action", action="store_const", const="check")
    add("--accept-golden", dest="action", action="store_const", const="accept")
    parser.set_defaults(action="report")
    run_stage(main, parser)
