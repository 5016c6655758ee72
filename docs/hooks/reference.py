"""The reference of commands, blocks, heads and metrics, written when the site is built."""

import argparse
import importlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import nlp_core  # isort: skip  # noqa: F401  # pins the instruction set before torch is imported
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from nlp_core.blocks import BLOCKS
from nlp_core.cli.program import GROUPS, Command, Formatter, find_commands
from nlp_core.heads import HEADS
from nlp_core.metrics.base import METRICS
from nlp_core.models.documentation import Documentation, document

WIDTH = 88
GENERATED = "This page is generated from the code."
BETTER = {"higher": "higher", "lower": "lower", None: "neither"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to those of docs/."""
    for name, text in write_pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def write_pages() -> dict[str, str]:
    """Return the pages by name, as Markdown."""
    os.environ["COLUMNS"] = str(WIDTH)  # the width of usage lines
    return {
        "commands": "\n".join(_write_commands()),
        "blocks": "\n".join(_write_parts("Blocks", BLOCKS, "block")),
        "heads": "\n".join(_write_parts("Heads", HEADS, "head")),
        "metrics": "\n".join(_write_metrics()),
    }


def escape(text: str) -> str:
    """Return a text for a cell of a table, in which only code in backticks is Markdown."""
    parts = text.split("`")
    return "`".join(
        part.replace("|", r"\|") if idx % 2 else _escape_plain(part)
        for idx, part in enumerate(parts)
    )


def _escape_plain(text: str) -> str:
    text = re.sub(r"([\\*_{}\[\]|#])", r"\\\1", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def write_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [" | ".join(header), " | ".join("---" for _ in header)]
    return ["", *(f"| {line} |" for line in [*lines, *(" | ".join(row) for row in rows)]), ""]


def _write_commands() -> Iterator[str]:
    yield "# Commands"
    yield f"\n{GENERATED} `reglue COMMAND --help` prints the same.\n"
    commands = find_commands()
    for group in GROUPS:
        yield f"## {group.capitalize()}\n"
        for name, command in commands.items():
            if command.group == group:
                yield f"### reglue {name}\n"
                yield from _write_command(name, command)


def _write_command(name: str, command: Command) -> Iterator[str]:
    parser = argparse.ArgumentParser(prog=f"reglue {name}", formatter_class=Formatter)
    importlib.import_module(f"nlp_core.cli.{name}").add_arguments(parser)
    summary = f"{command.summary[0].upper()}{command.summary[1:]}."
    yield escape(command.description or summary)
    yield from _write_parser(parser)
    yield "```sh"
    yield from command.examples
    yield "```\n"


def _write_parser(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"\n```text\n{parser.format_usage().removeprefix('usage: ').rstrip()}\n```\n"
    formatter = argparse.HelpFormatter(prog=parser.prog)
    rows, inner = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            inner = list(action.choices.values())
        elif action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):
            names = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            choices = ", ".join(f"`{item}`" for item in action.choices or ())
            text = escape(formatter._expand_help(action)) if action.help else ""
            rows.append([f"`{names}`", "; ".join(filter(None, [text, choices]))])
    if rows:
        yield from write_table(["argument", "what it does"], rows)
    for other in inner:
        yield f"#### {other.prog}\n"
        yield escape(other.description or "")
        yield from _write_parser(other)


def _write_parts(title: str, registry: Any, sort: str) -> Iterator[str]:  # Any: of either registry
    yield f"# {title}"
    yield f"\n{GENERATED} `reglue {sort}s` lists them, and `reglue {sort}s NAME` prints one.\n"
    found = {name: document(registry.get(name)) for name in registry.names()}
    rows = [[f"[{name}](#{name})", escape(item.summary)] for name, item in found.items()]
    yield from write_table([sort, "what it does"], rows)
    for name, item in found.items():
        yield f"## {name} {{ #{name} }}\n"
        yield from _write_part(item)


def _write_part(found: Documentation) -> Iterator[str]:
    for paragraph in (found.summary, *found.details):
        yield f"{escape(paragraph)}\n"
    facts = {
        "inputs": found.inputs,
        "serves": ", ".join(found.serves),
        "shape": found.shape,
        "source": found.source,
        "note": found.note,
    }
    yield from (f"- **{fact}**: {escape(text)}" for fact, text in facts.items() if text)
    if not found.options:
        yield "\nIt has no options.\n"
        return
    rows = [
        [f"`{item.name}`", escape(item.form), _say_default(item.default), escape(item.text)]
        for item in found.options
    ]
    yield from write_table(["option", "value", "default", "what it does"], rows)


def _say_default(default: str | None) -> str:
    return "required" if default is None else f"`{default}`"


def _write_metrics() -> Iterator[str]:
    yield "# Metrics"
    yield f"\n{GENERATED} A name in capitals after `@` is a parameter, such as `f1@PER`.\n"
    for kind in sorted(METRICS):
        yield f"## {kind}"
        rows = [
            [f"`{name}`", BETTER[item.better], "points" if item.in_points else "its own unit"]
            for name, item in sorted(METRICS[kind].items())
        ]
        yield from write_table(["metric", "better", "unit"], rows)
