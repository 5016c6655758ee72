import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp_core.data.tagging_scheme import (
    TagError,
    convert_tags,
    list_tags,
    read_spans,
    write_tags,
)
from reglue_runtime.decoding import Span


@st.composite
def entities(draw: st.DrawFn) -> list[Span]:
    spans: list[Span] = []
    position = 0
    for _ in range(draw(st.integers(0, 4))):
        start = position + draw(st.integers(0, 2))
        position = start + draw(st.integers(1, 3))
        spans.append(Span(start, position, draw(st.sampled_from(["LOC", "PER"]))))
    return spans


def test_iob1_entity_begins_with_i_and_with_b_only_behind_its_like() -> None:
    tags = ["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-ORG"]
    expected = [Span(0, 2, "PER"), Span(2, 3, "PER"), Span(4, 5, "LOC"), Span(5, 6, "ORG")]
    assert read_spans(tags, "IOB1") == expected


def test_iob1_becomes_bio_bioes_and_bilou() -> None:
    tags = ["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-LOC", "I-LOC"]
    bio = ["B-PER", "I-PER", "B-PER", "O", "B-LOC", "I-LOC", "I-LOC"]
    bioes = ["B-PER", "E-PER", "S-PER", "O", "B-LOC", "I-LOC", "E-LOC"]
    assert convert_tags(tags, "IOB1", "BIO") == bio
    bilou = ["B-PER", "L-PER", "U-PER", "O", "B-LOC", "I-LOC", "L-LOC"]
    assert convert_tags(tags, "IOB1", "BIOES") == bioes
    assert convert_tags(tags, "IOB1", "BILOU") == bilou
    assert convert_tags(bilou, "BILOU", "BIOES") == bioes
    assert convert_tags(bioes, "BIOES", "BIO") == bio


@given(entities(), st.sampled_from(["IOB1", "BIO", "BIOES", "BILOU"]))
def test_written_tags_are_read_back(spans: list[Span], scheme: str) -> None:
    length = spans[-1].end + 1 if spans else 2
    assert read_spans(write_tags(spans, length, scheme), scheme) == spans


@pytest.mark.parametrize(
    ("tags", "scheme", "index"),
    [
        (["O", "X-LOC"], "BIO", 1),
        (["O", "BI-LOC"], "BIO", 1),
        (["B-"], "BIO", 0),
        (["LOC"], "BIO", 0),
        (["S-LOC"], "BIO", 0),
        (["O", "I-LOC"], "BIO", 1),
        (["B-LOC", "I-PER"], "BIO", 1),
        (["B-LOC", "O"], "BIOES", 1),
        (["B-LOC"], "BIOES", 0),
        (["B-LOC", "S-LOC"], "BIOES", 1),
        (["O", "E-LOC"], "BIOES", 1),
        (["S-LOC", "I-LOC"], "BIOES", 1),
        (["B-LOC", "O"], "BILOU", 1),
        (["O", "L-LOC"], "BILOU", 1),
        (["S-LOC"], "BILOU", 0),
        (["U-LOC"], "BIOES", 0),
    ],
)
def test_forbidden_tags_are_refused_with_their_place(
    tags: list[str], scheme: str, index: int
) -> None:
    with pytest.raises(TagError) as caught:
        read_spans(tags, scheme)
    assert caught.value.index == index


def test_list_tags_holds_every_form_once() -> None:
    assert list_tags(["LOC"], "BIO") == ["B-LOC", "I-LOC", "O"]
    assert len(list_tags(["LOC", "MISC", "ORG", "PER"], "BIOES")) == 17
