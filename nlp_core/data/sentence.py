"""Split paragraphs into sentences by rule."""

import re

# a mark that ends a sentence, closing signs, a space, and what can begin a sentence
BOUNDARY = re.compile(r"(?<=[.!?])([\"'\u2019\u201d)\]]*)\s+(?=[\"'\u2018\u201c(\[]?[A-Z0-9])")
ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Gen|Col|Capt|Lt|Sgt|Rev|Hon|No|Nos|Vol|vs|"
    r"cf|ca|c|approx|fig|al|e\.g|i\.e|[A-Z]\.[A-Z])\.$"
)


def split_sentences(text: str) -> list[str]:
    """Split a paragraph after full stops, exclamation and question marks.

    A mark ends a sentence if a capital or a digit follows, except in an initial or a common
    abbreviation. The rule errs now and then; pre-training only needs consecutive pieces of text.
    """
    sentences, start = [], 0
    for match in BOUNDARY.finditer(text):
        if match[1] == "" and ABBREVIATION.search(text[start : match.start()]):
            continue
        sentences.append(text[start : match.end(1)].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]
