import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlp_core.cli import main
from nlp_core.data.conversion import Conversion, Form
from nlp_core.data.tagging_scheme import PREFIXES, read_spans, write_tags
from nlp_core.errors import DataError
from reglue_runtime.decoding import Span

SCHEMES = sorted(PREFIXES)
CONLL = (
    "-DOCSTART- -X- O O\n\nEU NNP I-NP {0}\n# NN I-NP O\nPeter NNP I-NP {1}\nBlackburn NNP I-NP {2}"
    "\nKohl NNP I-NP {3}\n\nLondon NNP I-NP {4}\n"
)
TAGS = {
    "IOB1": ("I-ORG", "I-PER", "I-PER", "B-PER", "I-LOC"),
    "BIO": ("B-ORG", "B-PER", "I-PER", "B-PER", "B-LOC"),
    "BIOES": ("S-ORG", "B-PER", "E-PER", "S-PER", "S-LOC"),
    "BILOU": ("U-ORG", "B-PER", "L-PER", "U-PER", "U-LOC"),
}


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[str], list[Span]]:
    spans: list[Span] = []
    position = 0
    for _ in range(draw(st.integers(0, 4))):
        start = position + draw(st.integers(0, 2))
        position = start + draw(st.integers(1, 3))
        spans.append(Span(start, position, draw(st.sampled_from(["LOC", "PER", "X-Y"]))))
    length = max(position + draw(st.integers(0, 2)), 1)
    words = st.sampled_from(["a", "#", "O", "B-LOC", "\u00e9\u00a0\u2028", "-", '"', "1"])
    return draw(st.lists(words, min_size=length, max_size=length)), spans


@st.composite
def files(draw: st.DrawFn, form: Form, scheme: str) -> str:
    end = draw(st.sampled_from(["\n", "\r\n"]))
    separator = " " if form == "conll2003" else draw(st.sampled_from([" ", "\t", "   "]))
    kept = ["", "-DOCSTART- -X- O O", "# newdoc id = 1", "#", " "]
    lines = []
    for words, spans in draw(st.lists(sentences(), min_size=1, max_size=4)):
        tags = write_tags(spans, len(words), scheme)
        if form == "tsv":
            lines += [f"{' '.join(words)}\t{' '.join(tags)}", *draw(st.sampled_from([[], [""]]))]
            continue
        lines += ["", *draw(st.lists(st.sampled_from(kept), max_size=2))]
        middle = ["NN", "I-NP"] if form == "conll2003" else []
        lines += [
            separator.join([word, *middle, tag]) for word, tag in zip(words, tags, strict=True)
        ]
    return end.join(lines) + draw(st.sampled_from(["", end]))


def convert(text: str, form: Form, schemes: Sequence[str]) -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        return "".join(Conversion(form, *schemes).rewrite(Path(file.name)))


@pytest.mark.parametrize("form", ["conll2003", "columns", "tsv"])
@settings(max_examples=40)
@given(data=st.data())
def test_there_and_back_gives_the_same_bytes(form: Form, data: st.DataObject) -> None:
    source, target = (data.draw(st.sampled_from(SCHEMES)) for _ in range(2))
    text = data.draw(files(form, source))
    there = convert(text, form, (source, target))
    assert convert(there, form, (target, source)) == text


@given(sentences(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_the_entities_stay_what_they_are(
    sentence: tuple[list[str], list[Span]],
    source: str,
    target: str,
) -> None:
    words, spans = sentence
    text = f"{' '.join(words)}\t{' '.join(write_tags(spans, len(words), source))}\n"
    converted = convert(text, "tsv", (source, target))
    assert converted.partition("\t")[0] == " ".join(words)
    assert read_spans(converted.rstrip("\n").split("\t")[1].split(" "), target) == spans


@pytest.mark.parametrize("target", SCHEMES)
@pytest.mark.parametrize("source", SCHEMES)
def test_all_ways_on_a_column_file(source: str, target: str) -> None:
    text = CONLL.format(*TAGS[source])
    assert convert(text, "conll2003", (source, target)) == CONLL.format(*TAGS[target])


@pytest.mark.parametrize(
    ("form", "scheme", "text", "expected"),
    [
        ("columns", "BIO", "a O\n\nb B-PER\nc I-LOC\n", "line 4: the tag I-LOC continues no entity of its type (BIO)"),  # noqa: E501
        ("columns", "BIOES", "b B-PER\nc I-LOC\nd E-LOC\n", "line 2: the tag I-LOC"),
        ("columns", "BIOES", "a O\nb B-PER\n\nc O\n", "line 2: the sentence ends inside the entity of B-PER"),  # noqa: E501
        ("columns", "BIO", "a O\nb PER\n", "line 2: found the tag 'PER', expected O, B-TYPE, I-TYPE"),  # noqa: E501
        ("columns", "BIO", "a O\nb X O\n", "line 2: found 3 columns, expected 2 as in line 1"),
        ("columns", "BIO", "a O\nb\n", "line 2: found 1 column"),
        ("columns", "BIO", "a\tO\n\tO\n", "line 2: found an empty column"),
        ("columns", "BIO", "a O\n# later O x\n", "line 2: found 4 columns"),
        ("conll2003", "IOB1", "a NN I-NP O\nb NN  O\n", "line 2: found 3 columns, expected 4 separated by one space"),  # noqa: E501
        ("tsv", "BIO", "a b\tO O\na b\tO\n", "line 2: found 2 words and 1 tags"),
        ("tsv", "BIO", "a b O O\n", "line 1: found 1 column, expected words, a tab, tags"),
        ("tsv", "BIO", "a b\tB-PER I-LOC\n", "line 1: the tag I-LOC"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_line_and_nothing_is_written(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: str,
    scheme: str,
    text: str,
    expected: str,
) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(text)
    schemes = ["--scheme-from", scheme, "--scheme-to", "BIOES"]
    with pytest.raises(SystemExit) as caught:
        main(["convert", str(source), str(target), "--from", form, *schemes])
    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: {source}: {expected}")
    assert message.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_another_type_begins_a_new_entity_in_iob1() -> None:
    found = convert("a b\tB-PER I-LOC\n", "tsv", ("IOB1", "BIO"))
    assert found == "a b\tB-PER B-LOC\n"


def test_a_file_may_be_converted_in_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.tsv"
    path.write_text("# hello\n\na\tI-LOC\n")
    schemes = ["--scheme-from", "iob1", "--scheme-to", "BIOES"]
    main(["convert", str(path), str(path), "--from", "columns", *schemes])
    assert path.read_text() == "# hello\n\na\tS-LOC\n"
    assert capsys.readouterr().err == f"{path}: sentences 1, entities 1, comment lines kept 1\n"


@pytest.mark.parametrize("target", ["", "in.txt/out.txt"])
def test_a_place_that_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("a O\n")
    schemes = ["--scheme-from", "BIO", "--scheme-to", "BIOES"]
    with pytest.raises(SystemExit):
        main(["convert", str(source), str(tmp_path / target), "--from", "columns", *schemes])
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / target}: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.txt: no such file"):
        list(Conversion("tsv", "BIO", "BIOES").rewrite(tmp_path / "none.txt"))


def test_a_byte_order_mark_stays() -> None:
    schemes = ("IOB1", "BIO")
    assert convert("\ufeffa\tI-LOC\n", "tsv", schemes) == "\ufeffa\tB-LOC\n"
    assert convert("a\tI-LOC\n", "tsv", schemes) == "a\tB-LOC\n"


def test_a_busy_machine_fails_no_property() -> None:
    assert settings().deadline is None
