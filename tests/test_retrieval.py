"""`reglue new`, `train`, `index` and `retrieve` on queries and passages, as a user runs them."""

import json
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.prediction.passage_index import VECTORS
from tests.tiny_encoder import write_encoder
from tests.user_commands import fail
from tests.user_files import QUICK

TOPICS = {
    "pay": ["card", "bank", "invoice", "cash"],
    "ship": ["parcel", "truck", "address", "box"],
    "login": ["password", "account", "name", "mail"],
}
PASSAGES = [f"the {word} is what you {topic} with" for topic in TOPICS for word in TOPICS[topic]]


def write_queries(path: Path, *, labelled: bool = False) -> Path:
    """Write queries and their passages; with labels each also has a hard negative."""
    names = ["query", "passage", *(["relevant"] if labelled else [])]
    lines = ["\t".join(names)]
    for idx, passage in enumerate(PASSAGES):
        query = f"which {passage.split()[1]} {passage.split()[-2]} ?"
        lines.append("\t".join([query, passage, "1"][: len(names)]))
        if labelled:
            lines.append("\t".join([query, PASSAGES[idx - 1], "0"]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs, a model trained on them, and an index of their passages."""
    folder = tmp_path_factory.mktemp("retrieval")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGLUE_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        write_queries(folder / "pairs.tsv")
        main(["new", "retrieval", "--train", "pairs.tsv", "-o", "model.json"])
        files = ["--train", "pairs.tsv", "--dev", "pairs.tsv"]
        main(["train", "model.json", *files, "-o", "faq", *QUICK])
        main(["index", "faq", "--data", "pairs.tsv", "-o", "faq.index"])
    return folder


@pytest.fixture(autouse=True)
def place(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    monkeypatch.setenv("REGLUE_CACHE", str(trained / "cache"))


def test_an_index_may_have_a_colon_in_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    main(["index", "faq", "--data", "pairs.tsv", "-o", "col:on/faq"])
    main(["retrieve", "faq", "col:on/faq", "which parcel ship ?"])
    assert capsys.readouterr().out


def test_the_file_is_understood() -> None:
    data = json.loads(Path("model.json").read_text())["data"]
    assert (data["kind"], data["texts"], data["label"]) == ("retrieval", ["query", "passage"], "")


def test_a_model_learns_which_passage_answers() -> None:
    metrics = json.loads(Path("faq/metrics.json").read_text())["metrics"]["dev"]
    assert metrics["recall@10"] == 100.0
    assert metrics["mrr@10"] > 60


def test_a_query_finds_its_passage(capsys: pytest.CaptureFixture[str]) -> None:
    main(["retrieve", "faq", "faq.index", "which parcel ship ?", "-k", "2"])
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[0] == "1"
    assert second.split()[0] == "2"
    assert float(first.split()[1]) >= float(second.split()[1])
    assert "the parcel is what you ship with" in first + second
    main(["retrieve", "faq", "faq.index", "which parcel ship ?", "-k", "2", "--json"])
    ((query, found),) = (item.values() for item in json.loads(capsys.readouterr().out))
    assert query == "which parcel ship ?"
    assert [item["rank"] for item in found] == [1, 2]
    assert found[0]["passage"]["passage"] in first


def test_an_approximate_index_finds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    queries = ["which card pay ?", "which mail login ?"]
    main(["retrieve", "faq", "faq.index", *queries, "-k", "3"])
    exact = capsys.readouterr().out
    main(["index", "faq", "--data", "pairs.tsv", "-o", "near.index", "--approximate"])
    capsys.readouterr()
    main(["retrieve", "faq", "near.index", *queries, "-k", "3"])
    assert capsys.readouterr().out == exact
    graph, table = (Path(name, VECTORS).read_bytes() for name in ("near.index", "faq.index"))
    assert len(graph) > len(table)


def test_a_file_of_queries_gets_their_passages(capsys: pytest.CaptureFixture[str]) -> None:
    main(["retrieve", "faq", "faq.index", "--data", "pairs.tsv", "-o", "found.jsonl", "-k", "12"])
    assert capsys.readouterr().out == "found.jsonl: 12 rows\n"
    rows = [json.loads(line) for line in Path("found.jsonl").read_text().splitlines()]
    for row, passage in zip(rows, PASSAGES, strict=True):
        assert row["passage"] == passage
        assert [item["rank"] for item in row["found"]] == list(range(1, 13))
        assert {item["passage"]["passage"] for item in row["found"]} == {*PASSAGES}


def test_ranks_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main(["test", "faq", "--data", "pairs.tsv", "--json"])
    metrics = json.loads(capsys.readouterr().out)
    kept = json.loads(Path("faq/metrics.json").read_text())["metrics"]["dev"]
    assert metrics.get("pairs.tsv", metrics) == pytest.approx(kept, abs=1e-4)


def test_a_batch_without_negatives_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["train", "model.json", "--train", "pairs.tsv", "-o", "alone", "--batch-size", "1"]
    message = fail(capsys, *files)
    assert "batch_size: found 1 and no passage labelled 0" in message
    assert not Path("alone").exists()
    write_queries(Path("both.tsv"), labelled=True)
    main(["new", "retrieval", "--train", "both.tsv", "-o", "both.json"])
    main(["train", "both.json", "--train", "both.tsv", "-o", "b", *files[-2:], "--epochs", "1"])


def test_hard_negatives_have_a_label() -> None:
    write_queries(Path("hard.tsv"), labelled=True)
    main(["new", "retrieval", "--train", "hard.tsv", "-o", "hard.json"])
    assert json.loads(Path("hard.json").read_text())["data"]["label"] == "relevant"
    main(["train", "hard.json", "--train", "hard.tsv", "-o", "hard", *QUICK, "--epochs", "1"])
    assert json.loads(Path("hard/run.json").read_text())["targets"] == {"label": ["0", "1"]}


def test_an_encoder_is_indexed_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = str(write_encoder(tmp_path))
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film\nthe bad film\na good film\n")
    index = str(tmp_path / "texts.index")
    main(["index", encoder, "--data", str(texts), "-o", index])
    assert "2 passages, 8 numbers each, 1 repeated rows left out" in capsys.readouterr().out
    main(["retrieve", encoder, index, "the bad film"])
    assert capsys.readouterr().out.splitlines()[0].split() == ["1", "1.0000", "the", "bad", "film"]
    other = fail(capsys, "retrieve", "faq", index, "the bad film")
    assert "found vectors of another model" in other
    assert "--plugin: " in fail(capsys, "retrieve", encoder, index, "film", "--plugin", "x.py")


def test_an_encoder_is_measured_without_training(tmp_path: Path) -> None:
    encoder = str(write_encoder(tmp_path))
    words = ["good", "bad", "great", "fine"]
    rows = [f"{word} film\tthe {word} film\n" for word in words]
    Path("films.tsv").write_text("query\tpassage\n" + "".join(rows))
    main(["new", "retrieval", "--train", "films.tsv", "-o", "e.json", "--encoder", encoder])
    options = ["--init", encoder, "--epochs", "0", "-o", str(tmp_path / "out")]
    main(["train", "e.json", "--train", "films.tsv", "--dev", "films.tsv", *options])
    note = json.loads((tmp_path / "out/metrics.json").read_text())
    assert note["best_epoch"] == 0
    assert note["metrics"]["dev"]["recall@10"] == 100.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "faq", "--data", "nothing.tsv", "-o", "x"], "nothing.tsv"),
        (["index", "faq", "--data", "pairs.tsv", "-o", "faq.index"], "found a passage index"),
        (["index", "faq", "--data", "pairs.tsv", "-o", "faq"], "found something other than"),
        (
            ["index", "faq", "--data", "pairs.tsv", "-o", "x", "--column", "passages"],
            "line 2: found no column 'passages'. Did you mean 'passage'?",
        ),
        (["index", "faq", "--data", "blank.jsonl", "-o", "x"], "line 2: found no words in"),
        (["index", "faq", "--data", "empty.txt", "-o", "x"], "empty.txt: found only blank lines"),
        (["retrieve", "faq", "faq", "a"], "found no index (index.json is missing)"),
        (["retrieve", "faq", "faq.index"], "expected either queries or --data with -o"),
        (["retrieve", "faq", "faq.index", " "], "found a query without words"),
        (["retrieve", "faq", "faq.index", "a", "-k", "0"], "-k: found 0, expected 1 or more"),
        (["retrieve", "faq", "faq.index", "a", "--column", "x"], "--column: found no --data"),
        (
            ["retrieve", "faq", "faq.index", "--data", "pairs.tsv", "-o", "x.tsv"],
            "x.tsv: expected a name that ends in .jsonl",
        ),
        (["predict", "faq", "--data", "pairs.tsv", "-o", "x.tsv"], "found a model for retrieval"),
        (["export", "faq", "--data", "pairs.tsv", "--to", "x"], "export a tower with --layer"),
    ],
)
def test_mistakes_are_reported(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("blank.jsonl").write_text('{"passage": "a b"}\n{"passage": " "}\n')
    Path("empty.txt").write_text("\n\n")
    assert message in fail(capsys, *arguments)
    assert not Path("x").exists()
    assert not Path("x.tsv").exists()


def test_lines_of_white_space_are_no_passages(capsys: pytest.CaptureFixture[str]) -> None:
    Path("spaces.txt").write_text("a b\n\n   \n\t\nc d\n")
    main(["index", "faq", "--data", "spaces.txt", "-o", "spaces.index"])
    assert "spaces.index: 2 passages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ragged.tsv", "query\tpassage\na\tb\tc\nd\te\n"),
        ("open.csv", 'query,passage\na,"b\n'),
        ("array.jsonl", '{"passage": "a"}\n[1]\n'),
        ("cut.jsonl", '{"passage": "a"}\n{"pas\n'),
        ("blank.jsonl", '{"passage": "a b"}\n{"passage": " "}\n'),
        ("taken.jsonl", '{"query": "a", "found": 1}\n'),
    ],
)
def test_advice_names_no_option_that_the_commands_lack(
    capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    Path(name).write_text(text)
    written = ["retrieve", "faq", "faq.index", "--data", name, "-o", "x.jsonl"]
    for call in (["index", "faq", "--data", name, "-o", "x"], written):
        if call is written or name != "taken.jsonl":
            message = fail(capsys, *call)
            assert f"{name}: line " in message
            assert "--set" not in message
            assert "leave it out" in message or "Rename it." in message


def test_another_kind_of_model_is_no_retriever(capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{'good' if idx % 2 else 'bad'} film\t{idx % 2}\n" for idx in range(20))
    Path("films.tsv").write_text("text\tlabel\n" + rows)
    main(["new", "classification", "--train", "films.tsv", "-o", "films.json"])
    main(["train", "films.json", "--train", "films.tsv", "-o", "films", *QUICK, "--epochs", "1"])
    found = fail(capsys, "index", "films", "--data", "pairs.tsv", "-o", "x")
    assert "found a model of the kind classification, expected one of the kind retrieval" in found


def test_a_broken_index_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    main(["index", "faq", "--data", "pairs.tsv", "-o", "broken.index"])
    Path("broken.index/vectors.faiss").write_bytes(b"x")
    assert "found another sha256" in fail(capsys, "retrieve", "faq", "broken.index", "a")


def test_a_query_that_is_no_text_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    found = fail(capsys, "retrieve", "faq", "faq.index", "a \udc80")
    assert "bytes that are not UTF-8" in found


def test_a_model_of_ranks_is_not_timed_in_torch(capsys: pytest.CaptureFixture[str]) -> None:
    timed = ["--against", "faq", "--data", "pairs.tsv", "--sentences", "1", "--batches", "1"]
    found = fail(capsys, "bench", "bundle", *timed)
    assert "found a model of kind retrieval, which cannot be timed in torch" in found
