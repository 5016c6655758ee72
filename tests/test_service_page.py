"""The page of the service in a browser: several inputs, history, code, keys, contrast, phones."""

import json
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from reglue_runtime import load
from tests.test_site_browser import FIND_FAINT, LEAST_CONTRAST
from tests.tiny_service import Running, ask, running, write_bundles

pytestmark = pytest.mark.slow

ODD = '<b>good</b> it\'s "fine" \u2028 \\'
COUNT_FOCUS = "() => document.activeElement.getAttribute('name') ?? document.activeElement.id"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folders = write_bundles(tmp_path_factory.mktemp("bundles"))
    with running({name: load(folder) for name, folder in folders.items()}) as found:
        yield found


@pytest.fixture
def opened(page: Any, served: Running) -> Iterator[Any]:  # Any: playwright is not always installed
    """The page, which must log no error and ask no other host."""
    problems: list[str] = []
    home = f"http://127.0.0.1:{served.port}/"
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((home, "data:")) else problems.append(request.url)
        ),
    )
    page.goto(home)
    page.get_by_role("group").first.wait_for()
    yield page
    assert problems == []


def predict(page: Any, *texts: str) -> None:
    """Fill in the inputs and wait for as many answers."""
    page.get_by_label("Text").first.fill(texts[0])
    for number, text in enumerate(texts[1:], 1):
        page.get_by_role("button", name="Add an input").click()
        page.get_by_label("Text").nth(number).fill(text)
    page.get_by_role("button", name="Predict").click()
    page.locator("#answer article").nth(len(texts) - 1).wait_for()


def test_each_model_has_an_input_to_try(opened: Any) -> None:
    for name in ("sentence", "joint"):
        opened.get_by_label("Model").select_option(name)
        assert opened.get_by_label("Text").input_value()
        opened.get_by_role("button", name="Predict").click()
        opened.get_by_role("heading", name="Prediction").wait_for()
    assert opened.locator("#answer .tokens").count() == 1


def test_inputs_are_answered_in_their_order_as_text(opened: Any, served: Running) -> None:
    texts = [ODD, "a bad film", "good"]
    predict(opened, *texts)
    reply = ask(served.port, {"bundle": "sentence", "examples": texts}).body["predictions"]
    best = opened.locator("#answer .best").all_inner_texts()
    assert best == [item["label"] for item in reply]
    assert opened.locator("#answer b").count() == 0
    assert opened.locator("#answer h2").first.inner_text().startswith("1. <b>good</b>")
    opened.get_by_role("button", name="Remove input 2").click()
    left = opened.locator("textarea").evaluate_all("areas => areas.map((area) => area.value)")
    assert left == [ODD, "good"]


def test_history_brings_back_inputs_and_answers(opened: Any) -> None:
    predict(opened, "a bad film", "good")
    first = opened.locator("#answer").inner_text()
    opened.get_by_label("Model").select_option("joint")
    assert opened.locator("#answer").inner_text() == ""
    opened.get_by_role("button", name="sentence: a bad film and 1 more").click()
    assert opened.locator("#answer").inner_text() == first
    assert opened.get_by_label("Model").input_value() == "sentence"
    assert opened.get_by_label("Text").nth(1).input_value() == "good"
    opened.reload()
    opened.get_by_role("group").first.wait_for()
    assert opened.locator("#history li").count() == 0
    assert opened.evaluate("() => localStorage.length + sessionStorage.length") == 0


def test_an_answer_that_comes_after_its_model_was_left_is_not_shown(opened: Any) -> None:
    held: list[Any] = []
    opened.route("**/predict", lambda route: held.append(route))  # playwright marks its handlers
    with opened.expect_request("**/predict"):
        opened.get_by_role("button", name="Predict").click()
    opened.get_by_label("Model").select_option("joint")
    with opened.expect_response("**/predict"):
        held[0].continue_()
    assert opened.locator("#answer").inner_text() == ""
    assert opened.locator("#answer").get_attribute("aria-busy") is None


def test_the_code_asks_the_same(opened: Any, served: Running) -> None:
    predict(opened, ODD, "good")
    opened.get_by_text("The same request as code").click()
    words = shlex.split(opened.locator("#curl").inner_text())
    body = json.loads(words[words.index("-d") + 1])
    assert body == {"bundle": "sentence", "examples": [{"text": ODD}, {"text": "good"}]}
    said = StringIO()
    with redirect_stdout(said):
        exec(opened.locator("#python").inner_text(), {})
    assert said.getvalue().strip() == str(ask(served.port, body).body["predictions"])
    opened.get_by_role("button", name="Copy Python").click()
    opened.get_by_role("status").filter(has_text="Cop").or_(
        opened.get_by_role("status").filter(has_text="Selected")
    ).wait_for()


def test_the_keys_reach_everything(opened: Any) -> None:
    opened.get_by_label("Model").focus()
    reached = []
    for _ in range(3):
        opened.keyboard.press("Tab")
        reached.append(opened.evaluate(COUNT_FOCUS))
    assert reached == ["text", "", "add"]
    opened.keyboard.press("Enter")
    assert opened.evaluate(COUNT_FOCUS) == "text"
    opened.keyboard.type("a good film")
    opened.keyboard.press("Control+Enter")
    opened.locator("#answer article").nth(1).wait_for()


def test_text_has_contrast_in_both_themes(opened: Any) -> None:
    opened.get_by_label("Model").select_option("joint")
    predict(opened, "the good film", "bad")
    opened.get_by_text("The same request as code").click()
    theme = opened.get_by_role("button", name="Theme")
    papers = []
    for name in ("light", "dark"):
        theme.press("Enter")
        assert theme.inner_text() == f"Theme: {name}"
        assert opened.evaluate(FIND_FAINT, [LEAST_CONTRAST, ""]) == [], name
        papers.append(opened.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert papers[0] != papers[1]


def test_nothing_is_wider_than_a_phone(opened: Any) -> None:
    opened.set_viewport_size({"width": 360, "height": 740})
    predict(opened, "x" * 300, "good " * 40)
    opened.get_by_text("The same request as code").click()
    assert opened.evaluate("() => document.documentElement.scrollWidth") <= 360
