from typing import Any

import pytest

from nlp_core.blocks import BLOCKS, Block
from nlp_core.blocks.option import options_model
from nlp_core.cli import main
from nlp_core.heads import HEADS, Head
from nlp_core.models.documentation import describe_form, document, parse_docstring

OWNERS = [BLOCKS.get(name) for name in BLOCKS.names()] + [HEADS.get(name) for name in HEADS.names()]


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.__name__)
def test_everything_is_documented(owner: type[Block] | type[Head]) -> None:
    found = document(owner)
    assert found.summary.endswith(".")
    assert found.inputs
    assert found.shape
    assert {option.name for option in found.options} == set(options_model(owner).model_fields)
    assert [option.name for option in found.options if not option.text] == []
    assert [option.name for option in found.options if "any value" in option.form] == []
    assert [option.name for option in found.options if "object" in option.form] == []
    for text in [found.summary, *found.details, found.shape, found.source, found.note]:
        assert "Args:" not in text
        assert "Shape:" not in text


def test_options_have_type_range_and_default() -> None:
    options = {option.name: option for option in document(BLOCKS.get("bilstm")).options}
    assert options["dropout"].form == "number, at least 0.0, below 1.0"
    assert options["dropout"].default == "0.0"
    assert options["hidden_dim"].form == "integer, at least 1"
    assert options["hidden_dim"].default == "128"
    embedding = {option.name: option for option in document(BLOCKS.get("word_embedding")).options}
    assert embedding["dim"].default is None
    assert embedding["vectors"].form == "text or null"
    assert embedding["vectors"].default == "null"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"type": "boolean"}, "true or false"),
        ({"enum": ["a", "b", "c"]}, "a, b or c"),
        ({"const": "a"}, "a"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 2}, "list of (text), at least 2 of them"),  # noqa: E501
        ({"$ref": "#/$defs/Mode"}, "x or y"),
        ({"oneOf": [{"type": "object", "properties": {"name": {"const": "a"}, "share": {"type": "number"}}}]}, "{name: a; share: number}"),  # noqa: E501
        ({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]}, "number, above 0 or null"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_schema_is_said_in_words(form: dict[str, Any], expected: str) -> None:
    assert describe_form(form, {"Mode": {"enum": ["x", "y"]}}) == expected


def test_a_docstring_is_cut_into_paragraphs_and_sections() -> None:
    text = "One.\n\nTwo\nlines.\n\nArgs:\n    a: first\n        more.\n\n"
    text += "Source: A,\n    B.\nNote: n.\n"
    paragraphs, sections = parse_docstring(text)
    assert paragraphs == ["One.", "Two lines."]
    assert sections["Args"] == ["", "    a: first", "        more.", ""]
    assert sections["Source"] == ["A,", "    B."]
    assert sections["Note"] == ["n."]


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(list(arguments))
    return " ".join(capsys.readouterr().out.split())


def test_lists_have_a_line_for_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["blocks"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == BLOCKS.names()
    assert "crf_tagging Label a sentence as a whole: p(y)" in read(capsys, "heads")


def test_one_block_is_shown_with_all_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = read(capsys, "blocks", "conv_pooling")
    for part in (
        "y = [pool_t activation(batch_norm(convolution_w(x)))_t for each window w].",
        "inputs a sequence",
        "filters integer, at least 1 must be given width F of each convolution.",
        "windows list of (integer, at least 1), at least 1 of them [1, 2, 3]",
        "source Kim 2014",
    ):
        assert part in text
    assert "serves dialogue, document, intent_slots, tagging" in read(
        capsys, "heads", "crf_tagging"
    )
    assert "It has no options." in read(capsys, "blocks", "concat")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["blocks", "bilstn"], "error: unknown block 'bilstn'. Did you mean 'bilstm'? See "),
        (["heads", "crf"], "error: unknown head 'crf'."),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(expected)
