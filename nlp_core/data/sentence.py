"""Paragraphs cut into sentences, by rule."""

import re

# a mark that ends a sentence, what closes behind it, a space, and what can begin a sentence
BOUNDARY = re.compile(r"(?<=[.!?])([\"'\u2019\u201d)\]]*)\s+(?=[\"'\u2018\u201c(\[]?[A-Z0-9])")
ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Gen|Col|Capt|Lt|Sgt|Rev|Hon|No|Nos|Vol|vs|"
    r"cf|ca|c|approx|fig|al|e\.g|i\.e|[A-Z]\.[A-Z])\.$"
)


def split_sentences(text: str) -> list[str]:
    """Cut a paragraph behind full stops, exclamation and question marks.

    A mark ends a sentence where a capital or a digit follows, unless it belongs to an initial or to
    a usual abbreviation. Rules are wrong now and then; pre-training only needs pieces of text that
    follow each other.

    Returns:
        The sentences in their order, none empty.
    """
    sentences, start = [], 0
    for match in BOUNDARY.finditer(text):
        if match[1] == "" and ABBREVIATION.search(text[start : match.start()]):
            continue
        sentences.append(text[start : match.end(1)].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]
