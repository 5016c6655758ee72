"""What the templates of the pages can use."""

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from nlp_core.report.markdown import SELECTIONS, format_gain


def build_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nlp_core.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "prose": _mark_code,
        "points": lambda value, decimals=2: f"{value:,.{decimals}f}",
        "signed": lambda value: f"{value:+.2f}",
        "gain": format_gain,
    }
    environment.globals |= {"selections": SELECTIONS, "marks": MARKS}
    return environment


MARKS = {
    "above": "▲",
    "reproduced": "●",
    "trend": "●",
    "below": "▼",
    "no trend": "▼",
    "no verdict": "-",
    "open": "○",
    "reference": "-",
    "ours": "-",
}
"""A sign before each verdict, so that colour is not its only mark."""


def _mark_code(text: str) -> Markup:
    """Return a text of the project's files, its backticks as code."""
    parts = " ".join(text.split()).split("`")
    marked = [
        Markup("<code>{}</code>").format(part) if idx % 2 else escape(part)
        for idx, part in enumerate(parts)
    ]
    return Markup("").join(marked)
