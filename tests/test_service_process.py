"""`reglue serve` as a process: what it loads, how it ends, and its page in a browser."""

import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_service import (
    ROOT,
    SECONDS,
    ask,
    get,
    running_process,
    wait_until,
    write_bundles,
)

FORBIDDEN = ["torch", "transformers", "pandas", "pyarrow", "nltk", "onnx", "mlflow", "sklearn"]
BODY = b'{"bundle": "joint", "examples": ["a good film"]}'
HEAD = (
    b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The bundles as the command names them."""
    folders = write_bundles(tmp_path_factory.mktemp("bundles"))
    return [f"{name}={folder}" for name, folder in folders.items()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_when_all_is_answered(bundles: list[str], number: int) -> None:
    with running_process(*bundles) as (process, port):
        assert get(port, "/health").body == {"status": "ready"}
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
            client.sendall(HEAD % len(BODY) + BODY[:10])
            wait_until(lambda: ask(port, BODY).status == 200)  # the one before was read by now
            process.send_signal(number)
            wait_until(lambda: get(port, "/health").status == 503)
            assert ask(port, BODY).status == 503
            client.sendall(BODY[10:])
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        assert process.wait(SECONDS) == 0
        with pytest.raises(ConnectionRefusedError):
            get(port, "/health")


def test_a_second_signal_ends_the_service_at_once(bundles: list[str]) -> None:
    with (
        running_process(*bundles) as (process, port),
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client,
    ):
        client.sendall(HEAD % len(BODY))
        wait_until(lambda: ask(port, BODY).status == 200)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: get(port, "/health").status == 503)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


def test_the_service_and_its_command_load_no_heavy_library() -> None:
    code = f"""
import sys
import nlp_core.cli.serve, reglue_runtime.service.server
heavy = sorted(set({FORBIDDEN!r}) & set(sys.modules))
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_service_stands_without_the_rest_of_the_project(
    bundles: list[str], tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "reglue_runtime", tmp_path / "reglue_runtime")
    code = f"""
import sys
from pathlib import Path
import reglue_runtime.service.app as app
from reglue_runtime.service.server import load_bundles
from reglue_runtime.service.settings import Settings
assert Path(app.__file__).is_relative_to({str(tmp_path)!r})
app.Service(load_bundles({bundles!r}, 1), Settings())
assert "nlp_core" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["{folder}"], "holds no bundle"),
        (["{folder}", "--max-batch", "0"], "found 0, expected 1 or more"),
        (["{folder}", "--threads", "100000"], "found 100000, expected 1 to 1024"),
        (["{folder}", "--port", "70000"], "expected 0 to 65535"),
    ],
)
def test_a_wrong_command_is_refused_in_a_paragraph(
    arguments: list[str], text: str, tmp_path: Path
) -> None:
    own = [item.format(folder=tmp_path) for item in arguments]
    code = "from nlp_core.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "serve", *own],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_the_page_shows_labels_and_entities_in_a_browser(bundles: list[str], page: Any) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    text = "the <b>good</b> Film is bad"
    with running_process(*bundles) as (_, port):
        page.goto(f"http://127.0.0.1:{port}/")
        page.get_by_label("Model").select_option("sentence")
        page.get_by_label("Text").fill(text)
        page.get_by_role("button", name="Predict").click()
        page.get_by_role("heading", name="Label").wait_for()
        expected = ask(port, {"bundle": "sentence", "examples": [text]}).body["predictions"][0]
        assert page.locator(".best").inner_text() == expected["label"]
        shown = page.locator(".best + dd .figure").inner_text()
        assert shown == f"{100 * expected['confidence']:.1f} %"
        width = page.locator(".best + dd .bar").evaluate("bar => bar.style.width")
        assert float(width.rstrip("%")) == pytest.approx(100 * expected["confidence"], abs=0.1)

        page.get_by_label("Model").select_option("joint")
        assert page.get_by_label("Text").input_value() == text
        page.get_by_label("Text").press("Control+Enter")
        page.get_by_role("heading", name="Slots").wait_for()
        slots = ask(port, {"bundle": "joint", "examples": [text]}).body["predictions"][0]["slots"]
        marks = page.locator("mark").all_inner_texts()
        found = [f"{item['text']} {item['type']}" for item in slots["entities"]]
        assert found
        assert [re.sub(r"\s+", " ", mark) for mark in marks] == found
        line = page.locator(".tokens").inner_text()
        for token in slots["tokens"]:
            assert token in line
        assert page.locator(".tokens b").count() == 0

        page.get_by_label("Text").fill("long " * 5000)
        page.get_by_role("button", name="Predict").click()
        page.locator(".wrong").wait_for()
        assert "expected at most 10000" in page.locator(".wrong").inner_text()
    # the refused request is logged by the browser itself
    assert [line for line in problems if "422" not in line] == []
