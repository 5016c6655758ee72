"""The pages of results in a browser: keys, contrast, themes, narrow screens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PAGES = ("index.html", "glue.html", "glue/cola_bilstm.html", "pretrain/minilm_further.html")
LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3, of text under 18 points
ON_BARS = (
    "rgb(17, 17, 17)"  # counts on the bars of README's figure, which have colours of their own
)

FIND_FAINT = """
([least, skipped]) => {
  const context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const read = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [r, g, b] = read(color).map((n) => n / 255)
      .map((n) => (n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const findBackground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (read(color)[3] === 255) return color;
    }
    return "white";
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3)
      .map((node) => node.data.trim()).join("");
    if (!text || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const color = element instanceof SVGElement ? style.fill : style.color;
    if (color === skipped) continue;
    const [one, other] = [light(color), light(findBackground(element))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < least) faint.push([text, color, contrast]);
  }
  return faint;
}
"""
READ_COLUMN = "(rows, column) => rows.map((row) => row.cells[column].textContent.trim())"

pytestmark = pytest.mark.slow


@pytest.fixture
def quiet_page(page: Any) -> Iterator[Any]:  # Any: playwright is not always installed
    """A page that must log no error and fetch nothing but files."""
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on("requestfailed", lambda request: problems.append(request.url))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(("file:", "data:")) else problems.append(request.url)
        ),
    )
    yield page
    assert problems == []


def test_text_has_contrast_in_both_themes(quiet_page: Any, site_dir: Path) -> None:
    for name in PAGES:
        for scheme in ("light", "dark"):
            quiet_page.emulate_media(color_scheme=scheme)
            quiet_page.goto((site_dir / name).as_uri())
            faint = quiet_page.evaluate(FIND_FAINT, [LEAST_CONTRAST, ON_BARS])
            assert faint == [], f"{name}, {scheme}"


def test_the_reader_chooses_a_theme_that_stays(quiet_page: Any, site_dir: Path) -> None:
    quiet_page.emulate_media(color_scheme="light")
    quiet_page.goto((site_dir / "index.html").as_uri())
    read_paper = "() => getComputedStyle(document.body).backgroundColor"
    white = quiet_page.evaluate(read_paper)
    button = quiet_page.get_by_role("button", name="Theme")
    assert button.inner_text() == "Theme: system"
    button.press("Enter")
    assert button.inner_text() == "Theme: light"
    assert quiet_page.evaluate(read_paper) == white
    button.press("Enter")
    assert button.inner_text() == "Theme: dark"
    assert quiet_page.evaluate(read_paper) != white
    quiet_page.goto((site_dir / "glue/cola_bilstm.html").as_uri())
    assert quiet_page.evaluate(read_paper) != white


def test_a_table_is_sorted_by_keyboard(quiet_page: Any, site_dir: Path) -> None:
    quiet_page.goto((site_dir / "index.html").as_uri())
    table = quiet_page.get_by_role("table", name="Compared numbers")
    header = table.get_by_role("columnheader", name="difference")
    column = header.evaluate("header => header.cellIndex")
    rows = table.locator("tbody tr")
    table.get_by_role("button", name="published").focus()
    for _ in range(20):
        quiet_page.keyboard.press("Tab")
        if header.get_by_role("button").evaluate("button => button === document.activeElement"):
            break
    for order, is_reverse in (("ascending", False), ("descending", True)):
        quiet_page.keyboard.press("Enter")
        assert header.get_attribute("aria-sort") == order
        texts = rows.evaluate_all(READ_COLUMN, column)
        assert all(texts)
        values = [float(text) for text in texts]
        assert values == sorted(values, reverse=is_reverse)
    assert table.locator("[aria-sort]").count() == 1


def test_empty_cells_are_sorted_last(quiet_page: Any, site_dir: Path) -> None:
    quiet_page.goto((site_dir / "glue.html").as_uri())
    table = quiet_page.get_by_role("table").first
    header = table.get_by_role("columnheader", name="ours")
    column = header.evaluate("header => header.cellIndex")
    for _ in range(2):
        header.get_by_role("button").press("Enter")
        texts = table.locator("tbody tr").evaluate_all(READ_COLUMN, column)
        filled = [bool(text) for text in texts]
        assert filled == sorted(filled, reverse=True)


def test_only_tables_are_wider_than_a_phone(quiet_page: Any, site_dir: Path) -> None:
    quiet_page.set_viewport_size({"width": 390, "height": 844})
    for name in PAGES:
        quiet_page.goto((site_dir / name).as_uri())
        assert quiet_page.evaluate("() => document.documentElement.scrollWidth") <= 390, name


def test_the_first_key_skips_to_the_content(quiet_page: Any, site_dir: Path) -> None:
    quiet_page.goto((site_dir / "wikiqa.html").as_uri())
    quiet_page.keyboard.press("Tab")
    quiet_page.keyboard.press("Enter")
    assert quiet_page.evaluate("() => document.activeElement.id") == "content"
