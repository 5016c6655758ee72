from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from nlp_core.config.base import parse_config
from nlp_core.config.dataset import DatasetConfig, read_dataset, read_registry
from nlp_core.errors import ConfigError

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "sources"
BIOMEDICAL = ["bc5cdr_chem", "bc5cdr_disease", "gad", "ncbi_disease"]
GLUE = ["ax", "cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"]
SAMPLES = ["sample_answer", "sample_ner", "sample_sentence", "sample_trees", "sample_vectors"]
SLU = ["atis", "snips"]
SQUAD = ["squad", "squad2"]
RETRIEVAL = ["squad_retrieval", "wikiqa_retrieval"]
TASK: dict[str, Any] = {
    "kind": "classification",
    "reader": {"name": "tsv", "texts": ["text"], "label": "label"},
    "tokens": "spaces",
    "labels": ["0", "1"],
    "metrics": ["accuracy"],
    "splits": {"train": {"file": "a.tsv", "rows": 3}, "dev": {"file": "a.tsv", "rows": 3}},
    "select_split": "dev",
    "report_split": "dev",
}
DATASET: dict[str, Any] = {
    "title": "t",
    "licence": "l",
    "citation": "c",
    "homepage": "h",
    "files": [{"name": "a.tsv", "mirror": "a.tsv", "sha256": [{"digest": "0" * 64}]}],
    "task": TASK,
}


def change(**parts: object) -> dict[str, Any]:
    """Return the dataset with values put at dotted paths (a double underscore is a dot)."""
    value = deepcopy(DATASET)
    for path, item in parts.items():
        *parents, last = path.split("__")
        place: Any = value
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place[parent]
        place[last] = item
    return value


def test_registry_holds_every_source() -> None:
    others = ["conll2003", "conll2003_pos", "glove", "minilm", "wikiqa", "wikitext2"]
    others += ["minilm_words", "neuronblocks_query", "bert_base"]
    others += ["anli", "anli_dev", "ax_categories", "fever", "scitail", "snli", "trec", "xnli"]
    others += ["sample_languages", "boolq", "cb", "copa", "multirc", "record", "wic", "wsc"]
    others += ["atis_trees", "snips_trees", "sample_commands", "squad_questions"]
    others += ["sample_dialogues", "sample_documents", "top", "sst2_labels", "multiwoz"]
    corpora = ["classic_books", "enwiki"]
    names = sorted([*BIOMEDICAL, *GLUE, *RETRIEVAL, *SAMPLES, *SLU, *SQUAD, *corpora, *others])
    assert sorted(read_registry(SOURCES)) == names


@pytest.mark.parametrize("name", GLUE)
def test_glue_is_selected_off_the_reported_split(name: str) -> None:
    task = read_dataset(name, SOURCES).task
    assert task is not None
    expected = (None, None) if name == "ax" else ("held_out", "dev")
    report = task.report_split.split("_")[0] if task.report_split else None
    assert (task.select_split, report) == expected


@pytest.mark.parametrize("name", ["conll2003", "wikiqa", "sample_ner", "sample_answer", *SLU])
def test_others_are_selected_on_dev_and_reported_on_test(name: str) -> None:
    task = read_dataset(name, SOURCES).task
    assert task is not None
    assert (task.select_split, task.report_split) == ("dev", "test")


@pytest.mark.parametrize(
    ("name", "label"),
    [("ncbi_disease", "Disease"), ("bc5cdr_disease", "Disease"), ("bc5cdr_chem", "Chemical")],
)
def test_biomedical_names_have_the_one_type_of_their_file(name: str, label: str) -> None:
    task = read_dataset(name, SOURCES).task
    assert task is not None
    assert task.reader.name == "conll"
    assert (task.reader.bare_type, task.labels) == (label, [label])
    assert (task.select_split, task.report_split) == ("dev", "test")


def test_gad_reports_its_test_part_with_equal_sentences_kept_together() -> None:
    task = read_dataset("gad", SOURCES).task
    assert task is not None
    assert task.held_out is not None
    assert (task.select_split, task.report_split) == ("held_out", "test")
    assert (task.held_out.by, task.metrics[0]) == ("text_a", "f1")


BARE: dict[str, Any] = {
    "task__kind": "tagging",
    "task__reader": {
        "name": "conll",
        "columns": 2,
        "separator": "tab",
        "scheme": "BIO",
        "bare_type": "Disease",
        "docstart": "keep",
    },
    "task__scheme": "BIOES",
    "task__labels": ["Disease"],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task__labels": ["Chemical", "Disease"]}, r"bare_type: found Disease with the labels"),
        ({"task__labels": ["Chemical"]}, r"with the labels \['Chemical'\], expected"),
        ({"task__reader": BARE["task__reader"] | {"bare_type": ""}}, "bare_type: found ''"),
        ({"task__reader": BARE["task__reader"] | {"separator": ";"}}, "separator: found ';'"),
    ],
)
def test_wrong_bare_type_is_refused(changes: dict[str, Any], message: str) -> None:
    assert parse_config(change(**BARE), DatasetConfig, where="d.yaml").kind == "tagging"
    with pytest.raises(ConfigError, match=message):
        parse_config(change(**BARE | changes), DatasetConfig, where="d.yaml")


def test_unknown_dataset_is_named_with_its_neighbour() -> None:
    with pytest.raises(ConfigError, match=r"unknown dataset 'sst-2'\. Did you mean 'sst2'"):
        read_dataset("sst-2", SOURCES)


@pytest.mark.parametrize("name", ["../secrets", "", "/etc/passwd"])
def test_dataset_name_is_no_path(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown dataset"):
        read_dataset(name, SOURCES)


def test_label_that_means_two_things_is_refused(tmp_path: Path) -> None:
    text = (SOURCES / "rte.yaml").read_text().replace('"entailment"', "no")
    (tmp_path / "rte.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"task\.labels\[0\]: YAML 1\.1 reads False"):
        read_dataset("rte", tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (change(licencex="x"), r"licencex: unknown key\. Did you mean 'licence'"),
        (change(task__metric=["x"]), r"task\.metric: unknown key\. Did you mean 'metrics'"),
        (change(task__kind="classificatio"), r"task\.kind: found .* Did you mean 'classification'"),
        (change(files=[]), "either files or a generator"),
        (change(files__0__sha256=[]), r"found no digest for a\.tsv"),
        (change(files__0__sha256=[{"digest": "abc"}]), r"digest: found 'abc'"),
        (change(files__0__unpack="zip"), "found 0 members with unpack: zip"),
        (change(files__0__mirror="../a.tsv"), r"mirror: found '\.\./a\.tsv'"),
        (change(files__0__url="ftp://x/a"), r"url: found 'ftp://x/a'"),
        (change(task__splits__dev__file="b.tsv"), r"no file gives the member 'b\.tsv'"),
        (change(task__splits__dev__rows=0), "rows: found 0"),
        (change(task__labels=["1", "0"]), "expected them sorted"),
        (change(task__labels=[]), "found 0 labels"),
        (change(task__scheme="BIO"), "tagging and intent_slots need one"),
        (change(task__slots=["city"]), "found 1 slots with kind classification"),
        (
            change(task__kind="tagging", task__scheme="BIO"),
            "the reader tsv with kind tagging, expected",
        ),
        (
            change(task__splits__dev__tags_file="a.tsv"),
            r"splits\.dev: found 1 of tags_file and label_file",
        ),
        (change(task__kind="pair_classification"), r"reader\.texts: .* needs 2"),
        (change(task__kind="ranking"), r"reader\.texts: .* needs 2"),
        (change(task__reader={"name": "wikiqa"}), "reader wikiqa with kind classification"),
        (change(task__select_split="held_out"), "unknown split 'held_out'"),
        (change(task__report_split="test"), "report_split: unknown split 'test'"),
        (change(task__further_report_splits=["x"]), "further_report_splits: unknown split 'x'"),
        (change(task__further_report_splits=["dev"]), "further_report_splits: found a split twice"),
        (
            change(task__held_out={"share": 0.1, "seed": 1, "by": "row"}),
            "found held_out or select_split: held_out, expected both",
        ),
        (
            change(task__held_out={"share": 1.5, "seed": 1, "by": "row"}),
            "share: found 1.5",
        ),
    ],
)
def test_wrong_dataset_is_refused_with_its_key(value: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_config(value, DatasetConfig, where="sources/d.yaml")
    assert str(caught.value).startswith("sources/d.yaml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "most"), [("ax_categories", 0), ("fever", 1), ("multiwoz", 0), ("top", 0)]
)
def test_a_file_without_a_known_digest_says_so(name: str, most: int) -> None:
    """The fetch refuses such a file until its digest is added."""
    files = read_dataset(name, SOURCES).files
    unknown = [file for file in files if not file.sha256]
    assert len(files) - len(unknown) == most
    assert all("No digest" in (file.digest_note or "") for file in unknown)


@pytest.mark.parametrize("name", ["anli", "xnli", "ax_categories", "mnli"])
def test_each_part_of_a_test_is_reported(name: str) -> None:
    task = read_dataset(name, SOURCES).task
    assert task is not None
    assert len({task.report_split, *task.further_report_splits}) > 1


def test_members_know_their_names() -> None:
    glove = read_dataset("glove", SOURCES)
    assert glove.member_names == ["glove.6B.100d.txt", "glove.6B.50d.txt"]
    assert glove.kind == "vectors"
    assert read_dataset("minilm", SOURCES).kind == "encoder"


JOINT: dict[str, Any] = {
    "task__kind": "intent_slots",
    "task__reader": {"name": "parallel", "scheme": "BIO"},
    "task__scheme": "BIO",
    "task__slots": ["city"],
    "task__splits": {
        "dev": {"file": "a.tsv", "tags_file": "a.tsv", "label_file": "a.tsv", "rows": 1}
    },
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task__slots": None}, "found 0 slots with kind intent_slots"),
        ({"task__slots": ["b", "a"]}, r"found labels \['b', 'a'\]; expected them sorted"),
        ({"task__scheme": None}, "found scheme None with kind intent_slots"),
        ({"task__kind": "tagging", "task__slots": None}, "reader parallel with kind"),
        ({"task__splits": {"dev": {"file": "a.tsv", "rows": 1}}}, "dev: found 0 of tags_file"),
        (
            {"task__splits": {"dev": JOINT["task__splits"]["dev"] | {"label_file": "b.tsv"}}},
            r"no file gives the member 'b\.tsv'",
        ),
        (
            {
                "task__splits": {"train": JOINT["task__splits"]["dev"]},
                "task__held_out": {"share": 0.1, "seed": 1, "by": "text_a"},
                "task__select_split": "held_out",
                "task__report_split": "train",
            },
            r"held_out\.by: found text_a with kind intent_slots",
        ),
    ],
)
def test_wrong_task_of_intents_and_slots_is_refused(changes: dict[str, Any], message: str) -> None:
    assert parse_config(change(**JOINT), DatasetConfig, where="d.yaml").kind == "intent_slots"
    with pytest.raises(ConfigError, match=message):
        parse_config(change(**JOINT | changes), DatasetConfig, where="d.yaml")


SPAN: dict[str, Any] = {
    "task__kind": "span",
    "task__reader": {"name": "squad"},
    "task__tokens": "plain_words",
    "task__labels": ["answerable"],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task__labels": ["0", "1"]}, r"found labels \['0', '1'\] with kind span"),
        ({"task__labels": ["unanswerable"]}, "expected \\['answerable'\\], or"),
        ({"task__tokens": "words"}, "tokens: found words with kind span"),
        ({"task__kind": "classification"}, "reader squad with kind classification"),
        (
            {"task__reader": {"name": "tsv", "texts": ["a", "b"], "label": "c"}},
            "with kind span, expected",
        ),
        (
            {"task__reader": {"name": "squad", "max_context_tokens": 0}},
            "max_context_tokens: found 0",
        ),
        (
            {
                "task__splits": {"train": {"file": "a.tsv", "rows": 1}},
                "task__held_out": {"share": 0.1, "seed": 1, "by": "text_a"},
                "task__select_split": "held_out",
                "task__report_split": "train",
            },
            "found text_a with kind span, expected row or article or paragraph",
        ),
    ],
)
def test_wrong_task_of_answers_is_refused(changes: dict[str, Any], message: str) -> None:
    assert parse_config(change(**SPAN), DatasetConfig, where="d.yaml").kind == "span"
    with pytest.raises(ConfigError, match=message):
        parse_config(change(**SPAN | changes), DatasetConfig, where="d.yaml")


@pytest.mark.parametrize(("name", "num_intents", "num_slots"), [("atis", 26, 83), ("snips", 7, 39)])
def test_slu_names_every_intent_and_slot(name: str, num_intents: int, num_slots: int) -> None:
    dataset = read_dataset(name, SOURCES)
    assert dataset.task is not None
    assert len(dataset.task.labels) == num_intents
    assert len(dataset.task.slots or []) == num_slots
    assert len(dataset.member_names) == 9
