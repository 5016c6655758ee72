import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from fabricated import make_project, make_published

from nlp_core.cli import main
from nlp_core.cli.program import build_parser, find_commands
from nlp_core.report.evaluation import evaluate_table

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "sources"
COMMANDS = find_commands()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(["data", "list", "--sources-dir", str(SOURCES), *arguments])
    return capsys.readouterr().out


def test_the_end_of_a_process_searches_no_cycles() -> None:
    # handlers run in reverse order, so this one sees what the package's own has done
    code = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count())); import nlp_core"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 1_000


def test_data_list_shows_licence_citation_and_labels_of_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "raw" / "cola").mkdir(parents=True)
    (tmp_path / "raw" / "cola" / "manifest.json").write_text("{}")
    rows = json.loads(run(capsys, "--json", "--data-dir", str(tmp_path)))
    found = {row["name"]: row for row in rows}
    assert len(found) == len(list(SOURCES.glob("*.yaml")))
    assert all(row["licence"] and row["citation"] and row["from"] for row in rows)
    assert found["cola"]["present"] == {"raw": True, "processed": False}
    assert found["sst2"]["splits"] == {"train": 67349, "dev": 872, "test": 1821}
    assert found["sample_ner"]["from"] == ["generated"]
    labels = found["glove"]["labels_of_digests"]["glove.6B.100d.txt"]
    assert "not complete" in labels[0]


def test_data_list_shows_a_card_for_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = run(capsys)
    for part in ("licence", "citation", "conll2003", "Reuters", "train 8551", "accepted"):
        assert part in text


def test_a_wrong_registry_is_one_paragraph_and_exit_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copy(SOURCES / "cola.yaml", tmp_path / "cola.yaml")
    with (tmp_path / "cola.yaml").open("a") as file:
        file.write("licencex: x\n")
    with pytest.raises(SystemExit) as caught:
        main(["data", "list", "--sources-dir", str(tmp_path)])
    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert "Did you mean 'licence'" in message
    assert message.count("\n") == 1


def test_a_registry_that_is_not_there_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["data", "list", "--sources-dir", str(tmp_path / "elsewhere")])
    assert caught.value.code == 2
    assert "elsewhere: found no such folder" in capsys.readouterr().err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", text, re.MULTILINE), name


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_a_command_shows_its_purpose_and_two_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: reglue {name} ")
    assert len(set(COMMANDS[name].examples)) == 2
    for example in COMMANDS[name].examples:
        assert f"\n  {example}\n" in text
        assert shlex.split(example)[:2] == ["reglue", name]


def test_options_of_the_examples_exist() -> None:
    for name, command in COMMANDS.items():
        parser = build_parser({name: command})
        for example in command.examples:
            parser.parse_args(shlex.split(example)[1:])


def list_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from list_parsers(part)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_explained_with_its_default(name: str) -> None:
    for parser in list_parsers(build_parser({name: COMMANDS[name]})):
        shown = " ".join(parser.format_help().split())
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                continue
            assert action.help, (parser.prog, action.dest)
            if action.default not in (None, False, [], "", argparse.SUPPRESS):
                assert f"(default: {action.default})" in shown, (parser.prog, action.dest)
        if parser.prog.startswith("reglue data "):
            assert parser.description
            assert str(parser.epilog).count("reglue data") == 2


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "--quiet", str(ROOT / "zoo/wikiqa/cnn.json")])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "command", ["zoo", "blocks", "heads", "blocks bilstm", "show zoo/wikiqa/cnn.json"]
)
def test_json_is_printed(capsys: pytest.CaptureFixture[str], command: str) -> None:
    main([*command.split(), "--json"])
    found = json.loads(capsys.readouterr().out)
    if command == "zoo":
        assert {"path", "description", "results"} <= found[0].keys()
    elif command == "blocks bilstm":
        options = {item["name"] for item in found["bilstm"]["options"]}
        assert {"hidden_dim", "dropout"} <= options
    assert found


def test_help_is_fast() -> None:
    """Under 0.3 s on an idle core; the limit is generous, since processors differ."""
    code = "import time; from nlp_core.cli import main\ntry: main(['--help'])"
    code += "\nexcept SystemExit: print(time.process_time())"
    command = [sys.executable, "-c", code]
    done = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True) for _ in range(5)]
    seconds = sorted(float(item.stdout.splitlines()[-1]) for item in done)
    assert seconds[2] < 1.0


COMPLETED = {
    "bash": "source {script}; COMP_WORDS=(reglue tr); COMP_CWORD=1; _shtab_reglue; "
    'printf "%s\\n" "${{COMPREPLY[@]}}"',
    "zsh": "autoload -Uz compinit && compinit -u -d {script}.dump; "
    'eval "$(cat {script})"; echo ${{_comps[reglue]}}',
    "fish": "source {script}; complete --do-complete 'reglue tr'",
}
EXPECTED = {"bash": "train", "zsh": "_shtab_reglue", "fish": "train"}


@pytest.mark.slow
@pytest.mark.parametrize("shell", COMPLETED)
def test_the_completion_of_a_shell_can_be_sourced(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    code = f"from nlp_core.cli import main; main(['completion', '{shell}'])"
    script = tmp_path / "reglue"
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    script.write_text(printed.stdout)
    call = [shell, "-c", COMPLETED[shell].format(script=script)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert EXPECTED[shell] in done.stdout.split()


def test_help_imports_no_command() -> None:
    code = "import sys; from nlp_core.cli import main\n"
    code += "try: main(['--help'])\nexcept SystemExit: pass"
    code += "\nprint([m for m in sys.modules if m.startswith('nlp_core.') or m == 'numpy'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith(
        "['nlp_core.errors', 'nlp_core.progress', 'nlp_core.cli.program', 'nlp_core.cli']\n"
    )


def test_an_unknown_command_gets_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["sho"])
    assert caught.value.code == 2
    message = capsys.readouterr().err
    said = "error: reglue: unknown command 'sho'. Did you mean 'show'? See docs/command-line.md.\n"
    assert message == said


def test_only_the_command_that_is_asked_for_is_imported() -> None:
    code = "import sys; from nlp_core.cli import main; main(['data', 'list'])"
    code += "; print('torch' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.endswith("False\n")


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = "from nlp_core.cli import main; main(['data', 'list', '--json'])"
    command = f"'{sys.executable}' -c \"{code}\" | head -n 1"
    found = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=ROOT, capture_output=True, text=True
    )
    assert found.stderr == ""


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"reglue {version('reglue')}\n"


@pytest.mark.parametrize("name", [[], ["glue"]])
def test_tables_outside_a_project_says_where_to_go(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["tables", *name])
    assert caught.value.code == 2
    assert "found no reports/published/, expected the root" in capsys.readouterr().err


def test_tables_shows_published_ours_and_verdict(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path)
    make_published(tmp_path)
    evaluate_table("trial", tmp_path)
    published = tmp_path / "reports" / "published"
    shutil.copy(published / "trial.yaml", published / "later.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    main(["tables"])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "Trial (trial)"
    assert (
        "Alpha AUC 88.00 86.00 \u00b1 0.25 (Other 1999) 87.50 \u00b1 17.68 (2) "
        "-100.00 to 100.00 -0.50 reproduced" in lines
    )
    assert "Delta AUC 91.00 not run [time]" in lines
    assert "- not run [time]: for want of time." in lines
    assert lines[-1] == "Trial (later): not measured; `reglue tables later` shows it."
    main(["tables", "later"])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any(line.endswith("not run: that cell is not measured") for line in lines)
    with pytest.raises(SystemExit) as caught:
        main(["tables", "trail"])
    assert caught.value.code == 2
    assert "unknown table 'trail'. Did you mean 'trial'?" in capsys.readouterr().err
