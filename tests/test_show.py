import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nlp_core.cli import main
from nlp_core.models.description import Node, describe_plan, write_mermaid
from nlp_core.models.plan import read_plan

ZOO = Path(__file__).resolve().parent.parent / "zoo"
SVG = "{http://www.w3.org/2000/svg}"
FILES = [ZOO / name for name in ("conll2003/ccnn_wlstm_crf.json", "glue/rte_bilstm_attn.json")]


def describe(path: Path) -> list[Node]:
    return describe_plan(read_plan(path))


def test_mermaid_has_every_node_and_edge() -> None:
    nodes = describe(FILES[1])
    lines = write_mermaid(nodes).splitlines()
    assert lines[0] == "flowchart TD"
    assert '  layer_second_lstm["second_lstm<br/>shares lstm<br/>[B,T,256]"]' in lines
    assert '  input_first(["first<br/>tokens_a<br/>[B,T]"])' in lines
    assert "  layer_lstm --> layer_second_attends" in lines
    arrows = [line for line in lines if "-->" in line]
    assert len(arrows) == len({(other, node.key) for node in nodes for other in node.reads})
    keys = [node.key for node in nodes if node.shares]
    assert lines[-1] == f"  class {','.join(keys)} shared"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_mermaid_says_of_each_node_all_that_the_table_does(path: Path) -> None:
    boxes = {
        line.split('"')[0].strip(" (["): line.split('"')[1].replace("<br/>", " ")
        for line in write_mermaid(describe(path)).splitlines()
        if '"' in line
    }
    for node in describe(path):
        texts = [node.name, node.shares or node.what, ", ".join(node.options), node.shape]
        assert [text for text in texts if text not in boxes[node.key]] == []


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Sequence[str]:
    main(list(arguments))
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_show_prints_shapes_sharing_and_parameters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = run(capsys, "show", str(FILES[1]))
    assert "word_100 word_embedding(first) [B,T,100] -" in lines
    assert "second_lstm bilstm(second_drop), shares lstm [B,T,256] 0" in lines
    assert "lstm bilstm(first_drop) [B,T,256] 286,720" in lines  # 2 * 4 * 128 * (150 + 128 + 2)
    assert "hidden_dim=128, num_layers=1, dropout=0.0" in lines
    assert "label head classification(pair) reads [B,1024]" in " ".join(lines)
    assert "first input tokens_a [B,T]" in lines
    assert "second_lstm_2 bilstm(second_both), shares first_lstm_2 [B,T,256] 0" in lines
    # and of the second one, which reads twice the width: 2 * 4 * 128 * (512 + 128 + 2)
    assert any(line.startswith(f"{286_720 + 657_408:,} parameters") for line in lines)


def test_show_prints_mermaid(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", str(FILES[0]), "--mermaid"])
    assert capsys.readouterr().out == write_mermaid(describe(FILES[0]))


def test_options_are_shown_as_they_were_set(tmp_path: Path) -> None:
    model = json.loads((ZOO / "sample" / "sentence_bilstm.json").read_text())
    model["heads"]["label"] |= {"loss": {"name": "focal", "gamma": 1.5}, "hidden_dims": [3, 4]}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    assert describe(path)[-1].options == ["loss={name: focal, gamma: 1.5}", "hidden_dims=[3, 4]"]


def test_a_wrong_model_draws_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["show", str(tmp_path / "none.json"), "--mermaid"])
    assert caught.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        f"error: {tmp_path / 'none.json'}: no such file; check its name. See docs/params.md.\n"
    )


def test_only_one_form_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.svg"
    with pytest.raises(SystemExit) as caught:
        main(["show", str(FILES[0]), "--svg", str(path), "--json"])
    assert caught.value.code == 2
    assert "show: found --svg and --json, expected one of them" in capsys.readouterr().err
    assert not path.exists()


def test_show_draws_every_layer_as_svg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.svg"
    assert run(capsys, "show", str(FILES[1]), "--svg", str(path)) == []
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    nodes = describe(FILES[1])
    names = [item.text for item in root.iter(f"{SVG}text") if item.get("class") == "name"]
    assert sorted(names) == sorted(node.name for node in nodes)
    assert len([*root.iter(f"{SVG}rect")]) == len(nodes)
    assert ".shared rect" in str(next(root.iter(f"{SVG}style")).text)
