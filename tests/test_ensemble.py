"""Ensembles: averages computed by hand, one graph of several models, bundles, users' mistakes."""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from nlp_core.config.ensemble import EnsembleConfig
from nlp_core.config.params import read_params
from nlp_core.data.gathering import gather_member
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_file
from nlp_core.heads.base import Head
from nlp_core.models.ensemble import Ensemble, MemberModel, join_members
from nlp_core.prediction.split_prediction import predict, score_split
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.report.cell import read_trained
from nlp_core.training.ensemble import make_ensemble, read_ensemble
from reglue_runtime import load
from reglue_runtime.average import MemberAverage, average
from reglue_runtime.example import InputExample
from tests.tiny import write_task, write_vectors
from tests.tiny_export import WORDS, export, make_trained, read_examples
from tests.tiny_glue import write_trained

RTE = "artifacts/cells/trial/rte_tiny"
GROUP = "artifacts/groups/pair"
TAGGER: dict[str, Any] = {
    "inputs": {"words": "tokens"},
    "layers": [*WORDS["layers"][:2]],
    "heads": {"tags": {"head": "crf_tagging", "inputs": ["lstm"]}},
}
SOFTMAX = TAGGER | {"heads": {"out": {"head": "tagging", "inputs": ["lstm"]}}}


def test_probabilities_are_averaged_as_they_are() -> None:
    found = average([np.array([0.9, 0.1]), np.array([0.5, 0.5])], "distribution", "probabilities")
    assert found == pytest.approx([0.7, 0.3])


def test_logits_are_averaged_before_the_softmax() -> None:
    logits = np.array([[1.0, -2.0, 0.5], [3.0, 1.0, -1.0]])
    odds = np.exp(logits)
    probs = [*(odds / odds.sum(-1, keepdims=True))]
    mean = np.exp(logits.mean(0))
    assert average(probs, "distribution", "logits") == pytest.approx(mean / mean.sum())


def test_logits_of_several_labels_are_averaged_label_by_label() -> None:
    logits = np.array([[1.0, -2.0], [3.0, 1.0]])
    expected = 1 / (1 + np.exp(-logits.mean(0)))
    assert average([*(1 / (1 + np.exp(-logits)))], "flags", "logits") == pytest.approx(expected)


@pytest.mark.parametrize("combination", ["probabilities", "logits"])
def test_numbers_are_averaged_whatever_the_combination(combination: str) -> None:
    assert average([np.array([-3.0]), np.array([5.0])], "values", combination) == [1.0]


def test_marginals_of_random_fields_are_averaged(tmp_path: Path) -> None:
    """Two labels and two tokens: the marginals are sums over four paths."""
    generator = np.random.default_rng(5)
    emissions = [generator.normal(size=(1, 2, 2)) for _ in range(2)]
    rows = [generator.normal(size=(4, 2)) for _ in range(2)]
    expected = np.zeros((2, 2))
    for member, (emission, (start, end, *steps)) in enumerate(zip(emissions, rows, strict=True)):
        np.save(tmp_path / f"m{member}.npy", rows[member])
        odds = np.array(
            [
                [
                    np.exp(start[a] + emission[0, 0, a] + steps[a][b] + emission[0, 1, b] + end[b])
                    for b in range(2)
                ]
                for a in range(2)
            ]
        )
        expected += np.stack([odds.sum(1), odds.sum(0)]) / odds.sum() / 2
    members = [{"output": f"m{member}", "file": f"m{member}.npy"} for member in range(2)]
    note = {"decoding": "tokens", "combination": "probabilities", "members": members}
    scores = {f"m{member}": emission for member, emission in enumerate(emissions)}
    example = type("Example", (), {"tokens": {"tokens": ["a", "b"]}})()
    assert MemberAverage(note, tmp_path).compute(scores, [example])[0] == pytest.approx(expected)


def make_members(root: Path, *graphs: dict[str, Any], kind: str = "tagging") -> list[TrainedModel]:
    """Return models with random weights on one task; each has other ones."""
    task_dir, vectors = write_task(root, kind), write_vectors(root)
    found = []
    for number, graph in enumerate(graphs):
        own = root / f"model{number}"
        own.mkdir()
        member = make_trained(own, task_dir, vectors, graph)
        for parameter in member.model.parameters():
            parameter.data *= 1 + number
        found.append(member)
    return found


def join(members: list[TrainedModel], combination: Any = "probabilities") -> TrainedModel:
    first = members[0]
    models = [MemberModel(item.name, item.model, item.featurizer) for item in members]
    model, featurizer = join_members(models, combination, where="the test")
    return TrainedModel(first.folder, "all", model, featurizer, first.task, first.data)


def test_a_random_field_and_a_softmax_predict_the_mean_of_their_marginals(tmp_path: Path) -> None:
    members = make_members(tmp_path, TAGGER, SOFTMAX)
    whole, split = join(members), read_examples(members[0])
    encoded = whole.featurizer.encode(split)
    found = np.exp(score_split(whole.model, encoded)["tags"][0])
    expected = np.zeros(found.shape)
    for member in members:
        batch = member.featurizer.encode(split).batch(np.arange(1))
        ((name, (scores, mask)),) = member.model.eval()(batch).items()
        head = member.model.heads[name]
        assert isinstance(head, Head)
        expected += head.marginals(scores, mask)[0].detach().numpy() / 2  # type: ignore[operator]
    assert found == pytest.approx(expected, abs=1e-5)
    tags = predict(whole.model, encoded, whole.task.targets).answers["tags"][0]
    labels = whole.task.targets["tags"]
    assert tags == [labels[idx] for idx in expected.argmax(-1)]


def test_the_logits_of_random_fields_are_the_geometric_mean_of_labellings(tmp_path: Path) -> None:
    members = make_members(tmp_path, TAGGER, TAGGER)
    whole, split = join(members, "logits"), read_examples(members[0])
    labels = whole.task.targets["tags"]
    encoded = whole.featurizer.encode(split)
    sizes = np.diff(split.texts["tokens"].offsets)
    size = int(sizes.min())
    rows = np.flatnonzero(sizes == size)
    paths = np.array([*product(range(len(labels)), repeat=size)])
    chances = np.zeros((len(rows), len(paths)))
    for item in members:
        batch = item.featurizer.encode(split).batch(rows)
        ((name, (scores, _)),) = item.model.eval()(batch).items()
        field = item.model.heads[name]
        emission, start, end, step = (
            part.detach().double().numpy()  # type: ignore[operator]
            for part in (scores, field.start, field.end, field.transition)
        )
        own = start[paths[:, 0]] + end[paths[:, -1]] + step[paths[:, :-1], paths[:, 1:]].sum(1)
        own = own + emission[:, np.arange(size), paths].sum(-1)
        chances += own - np.log(np.exp(own).sum(-1, keepdims=True))
    answers = predict(whole.model, encoded, whole.task.targets).answers["tags"]
    expected = [[labels[idx] for idx in paths[best]] for best in chances.argmax(-1)]
    assert [answers[row] for row in rows] == expected


def test_an_ensemble_of_one_model_twice_is_that_model(tmp_path: Path) -> None:
    (member,) = make_members(tmp_path, WORDS, kind="classification")
    whole, split = join([member, member]), read_examples(member)
    alone, both = (
        predict(item.model, item.featurizer.encode(split), item.task.targets)
        for item in (member, whole)
    )
    assert alone.answers == both.answers
    assert alone.score == pytest.approx(both.score, abs=1e-6)


def test_models_with_other_labels_cannot_be_averaged(tmp_path: Path) -> None:
    members = make_members(tmp_path, TAGGER, SOFTMAX)
    members[1].featurizer.targets["tags"].reverse()
    object.__setattr__(members[0].featurizer, "targets", {"tags": ["O"]})
    with pytest.raises(DataError, match=r"the test: .*found the labels .*average models of one"):
        join(members)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graphs", "combination"), [((TAGGER, SOFTMAX), "probabilities"), ((TAGGER, TAGGER), "logits")]
)
def test_the_bundle_of_an_ensemble_answers_as_the_mean_of_its_members(
    tmp_path: Path, graphs: tuple[dict[str, Any], ...], combination: str
) -> None:
    members = make_members(tmp_path, *graphs)
    whole = join(members, combination)
    parity = export(whole, tmp_path / "bundle", variant="float32")
    assert parity.same_labels == parity.examples
    note = json.loads((tmp_path / "bundle/bundle.json").read_text())
    (head,) = note["heads"]
    second = next(iter(graphs[1]["heads"]))
    assert [item["output"] for item in head["members"]] == ["m1_tags", f"m2_{second}"]
    split = read_examples(whole)
    tags = predict(whole.model, whole.featurizer.encode(split), whole.task.targets).answers["tags"]
    words = split.texts["tokens"]
    texts = np.split(np.array(words.tokens, dtype=object), words.offsets[1:-1])
    found = load(tmp_path / "bundle").predict([{"tokens": [*text]} for text in texts[:8]])
    assert [item["tags"] for item in found] == tags[:8]


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an ensemble of both seeds of a cell, which say the contrary."""
    monkeypatch.chdir(tmp_path)
    write_trained(tmp_path)
    path = Path(RTE, "cell.json")
    note = json.loads(path.read_text())
    runs = {
        seed: {"weights": f"sha256:{digest_file(Path(RTE, f'seed-{seed}/model.safetensors'))}"}
        for seed in ("1", "2")
    }
    path.write_text(json.dumps(note | {"runs": runs, "data": {"rte": "sha256:0"}}))
    write_ensemble(tmp_path)
    return tmp_path


def write_ensemble(root: Path, **changes: object) -> None:
    path = root / "params.yaml"
    params = yaml.safe_load(path.read_text())
    both = {"table": "trial", "cells": RTE, "data": "rte", "member_seeds": [1, 2]}
    both |= {"combination": "probabilities"} | changes
    path.write_text(yaml.safe_dump(params | {"ensembles": {"both": both}}))


def test_an_ensemble_is_a_cell_that_predicts(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = read_params(trained / "params.yaml")
    folder = make_ensemble(read_ensemble("both", params))
    assert folder == Path("artifacts/cells/trial/both")
    cell = read_trained("both", params.ensembles["both"], params, Path())
    assert (cell.seeds, [*cell.runs]) == ([1], ["1"])
    opened = TrainedModel.open(folder)
    assert isinstance(opened.model, Ensemble)
    split = opened.task.read_split("dev")
    found = predict(opened.model, opened.featurizer.encode(split), opened.task.targets).score
    assert found == pytest.approx(np.full((8, 2), 0.5))  # the members say the contrary
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    monkeypatch.setenv("REGLUE_DEVICE", "cuda")  # for what trains; its node may have no GPU
    make_ensemble(read_ensemble("both", params))
    assert before == {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_member_that_was_retrained_by_hand_is_an_error(trained: Path) -> None:
    Path(RTE, "seed-2/model.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match="expected those of the ensemble 'both'"):
        read_ensemble("both", read_params(trained / "params.yaml"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"member_seeds": [1, 7]}, "unknown seed '7'"),
        ({"member_seeds": [1]}, "found one model in an ensemble"),
        ({"repeats": 2}, "found one model in an ensemble"),
        ({"repeats": 3}, "member_seeds: found 2 for 3 ensembles"),
        ({"task": "sst2"}, "unknown task 'sst2'"),
        ({"data": "rt"}, "both.data: unknown task or group 'rt'"),
        ({"data": "qnli"}, "found data and cells of the tasks qnli, rte"),
        (
            {"cells": f"{GROUP}s"},
            "both.cells: found 'artifacts/groups/pairs', a group without members",
        ),
        ({"cells": GROUP}, "found data and cells of the tasks rte, qnli"),
    ],
)
def test_users_mistakes_are_named(trained: Path, changes: dict[str, Any], message: str) -> None:
    write_ensemble(trained, **changes)
    write_group(trained, "rte_tiny", "qnli_tiny")
    with pytest.raises(ConfigError, match=message):
        read_params(trained / "params.yaml")


def write_group(root: Path, *cells: str) -> None:
    path = root / "params.yaml"
    folder = RTE.rpartition("/")[0]
    groups = {cell: {"group": GROUP, "folder": folder, "member": cell} for cell in cells}
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"groups": groups}))


def test_an_ensemble_of_a_group_averages_the_copies_of_its_cells(trained: Path) -> None:
    alone = make_ensemble(read_ensemble("both", read_params(trained / "params.yaml")))
    weights = (alone / "seed-1/member-1/model.safetensors").read_bytes()
    other = Path(RTE).with_name("other_tiny")
    shutil.copytree(RTE, other)
    params = yaml.safe_load((trained / "params.yaml").read_text())
    params["experiments"]["other_tiny"] = params["experiments"]["rte_tiny"]
    (trained / "params.yaml").write_text(yaml.safe_dump(params))
    write_group(trained, "rte_tiny", "other_tiny")
    write_ensemble(trained, cells=GROUP, member_seeds=[1])
    for cell in (Path(RTE), other):
        gather_member(cell, Path(GROUP))
        shutil.rmtree(cell)
    cell = read_ensemble("both", read_params(trained / "params.yaml"))
    folder = make_ensemble(cell)
    assert [str(member) for member in cell.members[1]] == [f"{other}/seed-1", f"{RTE}/seed-1"]
    for place in (1, 2):
        assert (folder / f"seed-1/member-{place}/model.safetensors").read_bytes() == weights


def test_an_ensemble_cannot_teach_as_a_cell(trained: Path) -> None:
    path = trained / "params.yaml"
    taught = {"cell": "artifacts/cells/trial/both", "seeds": [1], "data": "rte"}
    params = yaml.safe_load(path.read_text()) | {"taught": {"rte_taught": taught}}
    path.write_text(yaml.safe_dump(params))
    with pytest.raises(ConfigError, match=r"found the ensemble .both.*name the cells and seeds"):
        read_params(path)


def test_repeats_share_the_seeds_in_their_order() -> None:
    values = {"table": "trial", "cells": GROUP, "data": "rte", "member_seeds": [4, 3, 2, 1]}
    config = EnsembleConfig.model_validate({**values, "combination": "logits", "repeats": 2})
    cells = ["artifacts/cells/trial/a", "artifacts/cells/trial/b"]
    own = [[*map(str, config.list_members(cells, number))] for number in config.seeds]
    assert own == [
        [f"{cell}/seed-{seed}" for cell in cells for seed in seeds] for seeds in ((4, 3), (2, 1))
    ]


def test_an_exported_field_over_documents_counts_their_sentences(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    np.save(tmp_path / "a.npy", generator.normal(size=(5, 3)))
    members = [{"output": "a", "file": "a.npy"}]
    note = {"decoding": "tokens", "combination": "probabilities", "members": members}
    mean = MemberAverage(note, tmp_path)
    scores_BTL = generator.normal(size=(2, 4, 3))
    short, long = (
        InputExample({}, {"tokens": ["a", "b"] * size, "sentences": ["a b"] * size}, {}, 0)
        for size in (2, 4)
    )
    both = mean.compute({"a": scores_BTL}, [short, long])
    alone = mean.compute({"a": scores_BTL[:1, :2]}, [short])
    np.testing.assert_allclose(both[:1, :2], alone, rtol=1e-12)  # sums in 64 bits
