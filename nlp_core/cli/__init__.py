"""The command `reglue`: train and use models, reproduce tables, inspect a project.

Each command is a module of this package with `add_parser(subparsers)`, which calls `add_command`
and names the function that runs it. Only the module of the given command is imported, since torch
takes seconds that `reglue --help` does not need.
"""

import argparse
import importlib
import os
import sys
from importlib.metadata import version
from typing import NamedTuple, NoReturn, TypeAlias

from nlp_core.errors import ConfigError, NlpCoreError, suggest


class Command(NamedTuple):
    """What `reglue --help` and the command's own `--help` show."""

    module: str
    summary: str
    examples: tuple[str, str]


GROUPS: dict[str, dict[str, Command]] = {
    "train on your own file": {
        "new": Command(
            "new",
            "look at a data file and write a model file for it",
            (
                "reglue new classification --train reviews.tsv -o reviews.json",
                "reglue new tagging --train people.conll --encoder encoders/minilm -o people.json",
            ),
        ),
        "train": Command(
            "train",
            "train a model file on a data file",
            (
                "reglue train reviews.json --train reviews.tsv -o artifacts/reviews",
                "reglue train reviews.json --train reviews.tsv --dev dev.tsv --epochs 5 --lr 0.001",
            ),
        ),
        "test": Command(
            "predict",
            "measure a trained model on a labelled file",
            (
                "reglue test artifacts/reviews --data later.tsv",
                "reglue test artifacts/reviews --data later.tsv --confusion",
            ),
        ),
        "predict": Command(
            "predict",
            "predict a file, or texts that you type",
            (
                "reglue predict artifacts/reviews --data later.tsv -o predicted.tsv",
                "reglue predict artifacts/reviews",
            ),
        ),
        "embed": Command(
            "embed",
            "write a model's or an encoder's vectors of texts",
            (
                "reglue embed artifacts/reviews --data later.tsv -o vectors.npy",
                "reglue embed data/processed/minilm --data texts.txt -o vectors.jsonl --layer mean",
            ),
        ),
        "convert": Command(
            "convert",
            "write a tagged file in another tagging scheme",
            (
                "reglue convert in.conll out.conll --from conll2003 --scheme-from IOB1 "
                "--scheme-to BIOES",
                "reglue convert in.tsv out.tsv --from tsv --scheme-from BIO --scheme-to BILOU",
            ),
        ),
    },
    "export and serve": {
        "export": Command(
            "export",
            "write a trained model as a bundle that predicts without torch",
            (
                "reglue export artifacts/reviews --data later.tsv --to bundles/reviews",
                "reglue export artifacts/cells/slu/atis_joint_bilstm --to bundles/atis "
                "--variant int8",
            ),
        ),
        "bench": Command(
            "bench",
            "time bundles and trained models",
            (
                "reglue bench bundles/reviews --texts lines.txt",
                "reglue bench bundles/reviews --against artifacts/reviews --data later.tsv",
            ),
        ),
        "serve": Command(
            "serve",
            "predict over HTTP with bundles",
            (
                "reglue serve bundles/reviews --port 8000",
                "reglue serve reviews=bundles/reviews flights=bundles/atis",
            ),
        ),
    },
    "reproduce tables": {
        "tables": Command(
            "tables",
            "show published numbers, ours and the verdicts",
            ("reglue tables", "reglue tables wikiqa"),
        ),
        "site": Command(
            "site",
            "write the results as HTML pages",
            ("reglue site", "reglue site --out public"),
        ),
        "verify": Command(
            "verify",
            "train a cell again and compare every byte with the committed results",
            ("reglue verify wikiqa cnn --seed 1", "reglue verify --draw 10"),
        ),
        "explain": Command(
            "explain",
            "show where a cell's numbers come from",
            ("reglue explain wikiqa cnn", "reglue explain conll2003 wcnn --json"),
        ),
        "diff": Command(
            "diff",
            "show the scores that moved between two commits",
            ("reglue diff HEAD", "reglue diff main my-branch --markdown"),
        ),
        "doctor": Command(
            "doctor",
            "check whether this machine computes the committed bytes",
            ("reglue doctor", "reglue doctor --accept"),
        ),
        "submit": Command(
            "submit",
            "write the zip that GLUE's site takes",
            (
                "reglue submit sst2_bilstm rte_bilstm -o glue.zip",
                "reglue submit sst2_bilstm -o glue.zip --fill majority",
            ),
        ),
    },
    "look things up": {
        "data": Command(
            "data",
            "list the datasets with licences, citations and digests",
            ("reglue data list", "reglue data list --json"),
        ),
        "zoo": Command(
            "zoo",
            "list the model files to start from and their scores",
            ("reglue zoo", "reglue zoo --readme"),
        ),
        "show": Command(
            "show",
            "check a model file and show its layers with shapes",
            (
                "reglue show zoo/wikiqa/cnn.json",
                "reglue show zoo/wikiqa/cnn.json --mermaid",
            ),
        ),
        "blocks": Command(
            "blocks",
            "list the blocks that a model file can use",
            ("reglue blocks", "reglue blocks bilstm"),
        ),
        "heads": Command(
            "blocks",
            "list the heads that a model file can end in",
            ("reglue heads", "reglue heads crf_tagging"),
        ),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
"""Every command by its name."""

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where a command adds its parser."""

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class Parser(argparse.ArgumentParser):
    """A parser that reports wrong arguments as a user's mistake."""

    def error(self, message: str) -> NoReturn:
        """Report wrong arguments.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{message}. `{self.prog} --help` lists the options.")


class Formatter(argparse.HelpFormatter):
    """Help text that keeps the lines of examples and wraps everything else."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def add_command(
    subparsers: Subparsers, name: str, description: str | None = None
) -> argparse.ArgumentParser:
    """Add the parser of a command, with its summary and its examples.

    Args:
        subparsers: where to add it.
        name: a key of `COMMANDS`.
        description: more than the summary says; None: the summary is enough.
    """
    command = COMMANDS[name]
    summary = f"{command.summary[0].upper()}{command.summary[1:]}."
    return subparsers.add_parser(
        name,
        description=description or summary,
        epilog="\n  ".join(["examples:", *command.examples]),
        formatter_class=Formatter,
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the command.

    Args:
        arguments: those after `reglue`; None: the process's own.

    Raises:
        SystemExit: with 2 when the arguments or a file are wrong, 130 when interrupted, 141 when
            the reader of the output went away.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        options = _build_parser(arguments[:1]).parse_args(arguments)
        options.run(options)
        sys.stdout.flush()
    except NlpCoreError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        raise SystemExit(EXIT_USER_ERROR) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_BROKEN_PIPE) from None
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or 'a file'}: {error.strerror or error}.\n")
        raise SystemExit(EXIT_USER_ERROR) from None


def _build_parser(wanted: list[str]) -> argparse.ArgumentParser:
    """Return a parser that knows the wanted command, or lists all if it is none of them.

    Raises:
        ConfigError: the wanted command does not exist.
    """
    parser = Parser(prog="reglue", formatter_class=Formatter)
    parser.add_argument("--version", action="version", version=f"reglue {version('reglue')}")
    name = wanted[0] if wanted else ""
    if name in COMMANDS:
        subparsers = parser.add_subparsers(required=True)
        importlib.import_module(f"nlp_core.cli.{COMMANDS[name].module}").add_parser(subparsers)
    elif name and not name.startswith("-"):
        raise ConfigError(f"reglue: unknown command '{name}'. {suggest(name, COMMANDS)}")
    else:
        parser.usage, parser.description = "reglue COMMAND ...", _list_commands()
        parser.add_argument("command", help=argparse.SUPPRESS)
    return parser


def _list_commands() -> str:
    """Return the commands by group, each group with an example."""
    lines = ["Regenerate result tables of NLU papers; train and serve models on your own data."]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:9} {command.summary}" for name, command in commands.items()]
        first = next(iter(commands.values()))
        lines.append(f"  {'':9} example: {first.examples[0]}")
    return "\n".join([*lines, "", "`reglue COMMAND --help` shows options and examples."])
