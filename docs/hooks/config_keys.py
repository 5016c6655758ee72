"""The reference of configuration keys, written from the pydantic models when the site is built."""

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from textwrap import dedent
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from reference import escape, write_table

from nlp_core.config.base import ClosedModel
from nlp_core.config.dataset import DatasetConfig
from nlp_core.config.model import ModelConfig
from nlp_core.config.params import Params
from nlp_core.config.published import PublishedTable
from nlp_core.models.documentation import describe_form

Schema = Mapping[str, Any]
SHORT_FORMS = ("Fgm", "Kl", "Mse", "Smart", "Vat")


class Page(NamedTuple):
    """A page of the reference.

    Attributes:
        intro: what the file is for, in one or two sentences.
        model: the model of its top level.
    """

    title: str
    intro: str
    model: type[BaseModel]


PAGES = {
    "grid": Page(
        "Keys of params.yaml and grid/",
        "What is built, and how it is trained. [The guide](../params.md) shows examples.",
        Params,
    ),
    "source": Page(
        "Keys of sources/",
        "Where data comes from, and how it is read. "
        "[Add a task](../extending.md#a-task) shows examples.",
        DatasetConfig,
    ),
    "published": Page(
        "Keys of reports/published/",
        "The numbers of papers. [Add a table](../extending.md#a-table) shows examples.",
        PublishedTable,
    ),
    "model": Page(
        "Keys of a model file",
        "The graph of a model. A user's model file also says how its data is read (`data`) and how "
        "it is trained (`training`); [The model file](../command-line.md#the-model-file) explains "
        "both.",
        ModelConfig,
    ),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to those of docs/."""
    for name, page in PAGES.items():
        text = "\n".join(write_page(page))
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def write_page(page: Page) -> Iterator[str]:
    schema = page.model.model_json_schema()
    shared = schema.get("$defs", {})
    models = {model.__name__: model for model in _list_models(ClosedModel)}
    yield f"# {page.title}\n\nThis page is generated from the code. {page.intro}"
    texts = read_docstrings(page.model)
    yield from _write_model("The file", {**schema, "description": ""}, texts, shared)
    for name in sorted(shared, key=say_name):
        if "properties" in shared[name]:
            texts = read_docstrings(models[name])
            yield from _write_model(say_name(name), shared[name], texts, shared)


def read_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the texts below a model's attributes; pydantic would read them at each start."""
    found: dict[str, str] = {}
    for base in reversed(model.mro()):
        if issubclass(base, ClosedModel):
            (tree,) = ast.parse(dedent(inspect.getsource(base))).body
            assert isinstance(tree, ast.ClassDef), base
            for item, text in pairwise(tree.body):
                match item, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=key)),
                        ast.Expr(value=ast.Constant(value=str(value))),
                    ):
                        found[key] = inspect.cleandoc(value)
    return found


def _list_models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for child in model.__subclasses__():
        yield from _list_models(child)


def say_name(name: str) -> str:
    """Return the name of a model in words: `MseLogitsConfig` is `MSE logits`."""
    first, *others = re.findall(r"[A-Z]+[a-z]*(?:LB)?", name.removesuffix("Config"))
    first = first.upper() if first in SHORT_FORMS else first
    return " ".join([first, *(word.lower() for word in others)])


def _write_model(
    title: str, form: Schema, texts: Mapping[str, str], shared: Schema
) -> Iterator[str]:
    yield f"\n## {title} {{ #{_say_anchor(title)} }}\n"
    if form.get("description"):
        yield f"{escape(' '.join(form['description'].split()))}\n"
    rows = []
    for key, item in form["properties"].items():
        if key in form.get("required", []):
            default = "required"
        else:
            value = item.get("default")
            default = f"`{json.dumps(value)}`" if "default" in item else ""
        text = escape(" ".join(texts.get(key, item.get("description", "")).split()))
        rows.append([f"`{key}`", describe(item, shared), default, text])
    yield from write_table(["key", "value", "default", "what it is"], rows)


def describe(form: Schema, shared: Schema) -> str:
    """Return the form of a value in words, with a link where it is a mapping of known keys."""
    if "$ref" in form:
        name = form["$ref"].rpartition("/")[2]
        if "properties" in shared[name]:
            return f"[{say_name(name)}](#{_say_anchor(say_name(name))})"
        return describe(shared[name], shared)
    choices = form.get("anyOf", form.get("oneOf"))
    if choices:
        return " or ".join(describe(item, shared) for item in choices)
    if form.get("type") == "array" and "items" in form:
        return f"list of ({describe(form['items'], shared)})"
    if form.get("type") == "object":
        values = form.get("additionalProperties") or next(
            iter(form.get("patternProperties", {}).values()), {}
        )
        named = isinstance(values, dict) and values
        return f"mapping of names to ({describe(values, shared)})" if named else "mapping"
    return escape(describe_form(form, shared))


def _say_anchor(title: str) -> str:
    return title.lower().replace(" ", "-")
