import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlp_core.cli import main
from nlp_core.models.description import Node, describe_plan
from nlp_core.models.drawing import draw_svg, write_lines, write_mermaid
from nlp_core.models.layout import Layout, Point, Size, lay_out, space_out
from nlp_core.models.plan import read_plan

ZOO = Path(__file__).resolve().parent.parent / "zoo"
FILES = [ZOO / name for name in ("conll2003/ccnn_wlstm_crf.json", "glue/rte_bilstm_attn.json")]
SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, Size], list[tuple[str, str]]]:
    count = draw(st.integers(1, 9))
    names = [f"n{idx}" for idx in range(count)]
    widths = draw(st.lists(st.integers(20, 200), min_size=count, max_size=count))
    sizes = {name: Size(width, 30 + width / 10) for name, width in zip(names, widths, strict=True)}
    edges = []
    for idx in range(1, count):
        for start in draw(st.lists(st.integers(0, idx - 1), max_size=3)):
            edges.append((names[start], names[idx]))
    return sizes, edges


def describe(path: Path) -> list[Node]:
    return describe_plan(read_plan(path))


def is_apart(first: str, second: str, layout: Layout, sizes: dict[str, Size]) -> bool:
    a, b = layout.centres[first], layout.centres[second]
    wide = (sizes[first].width + sizes[second].width) / 2
    high = (sizes[first].height + sizes[second].height) / 2
    return abs(a.x - b.x) > wide or abs(a.y - b.y) > high


def crosses(start: Point, end: Point, centre: Point, size: Size) -> bool:
    """Say whether a line straight down goes through a node."""
    is_beside = abs(start.x - centre.x) > size.width / 2
    return not is_beside and start.y < centre.y + size.height / 2 and end.y > centre.y


@settings(max_examples=60)
@given(graphs())
def test_nodes_stand_apart_and_below_what_they_read(
    graph: tuple[dict[str, Size], list[tuple[str, str]]],
) -> None:
    sizes, edges = graph
    layout = lay_out(sizes, edges)
    names = list(sizes)
    for idx, name in enumerate(names):
        assert all(is_apart(name, other, layout, sizes) for other in names[:idx])
        centre = layout.centres[name]
        assert sizes[name].width / 2 <= centre.x + 1e-6
        assert centre.x + sizes[name].width / 2 <= layout.size.width + 1e-6
    for start, end in edges:
        points = layout.routes[start, end]
        assert all(a.y <= b.y for a, b in pairwise(points))
        straight = zip(points[1:-1:2], points[2:-1:2], strict=True)
        for a, b in straight:
            assert a.x == b.x
            assert not any(crosses(a, b, layout.centres[name], sizes[name]) for name in names)


def test_places_keep_their_distances_at_the_least_cost() -> None:
    assert space_out([0.0, 10.0], [4.0], [1.0, 1.0]) == [0.0, 10.0]
    assert space_out([5.0, 5.0], [4.0], [1.0, 1.0]) == [3.0, 7.0]
    assert space_out([5.0, 5.0], [4.0], [1.0, 3.0]) == [2.0, 6.0]
    assert space_out([9.0, 0.0, 20.0], [3.0, 3.0], [1.0, 1.0, 1.0]) == [3.0, 6.0, 20.0]


def test_two_towers_are_drawn_without_a_crossing() -> None:
    sizes = dict.fromkeys("abcdef", Size(50, 30))
    edges = [("a", "d"), ("b", "c"), ("c", "e"), ("d", "e"), ("e", "f")]
    centres = lay_out(sizes, edges).centres
    assert (centres["a"].x < centres["b"].x) == (centres["d"].x < centres["c"].x)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_picture_has_every_node_and_edge(path: Path) -> None:
    nodes = describe(path)
    svg = draw_svg(nodes, "a <title>")
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    for node in nodes:
        assert [line for line in write_lines(node) if line not in texts] == []
    edges = {(other, node.key) for node in nodes for other in node.reads}
    assert sum(1 for path in root.iter(f"{SVG}path") if path.get("marker-end")) == len(edges)
    dashed = [box for box in root.iter(f"{SVG}rect") if box.get("stroke-dasharray")]
    assert len(dashed) == sum(node.shares is not None for node in nodes)
    assert "a <title>" in texts
    assert draw_svg(describe(path), "a <title>") == svg


def test_mermaid_has_every_node_and_edge() -> None:
    nodes = describe(FILES[1])
    lines = write_mermaid(nodes).splitlines()
    assert lines[0] == "flowchart TD"
    assert '  layer_second_lstm["second_lstm<br/>shares lstm<br/>[B,T,256]"]' in lines
    assert '  input_first(["first<br/>tokens_a<br/>[B,T]"])' in lines
    assert "  layer_lstm --> layer_second_attends" in lines
    arrows = [line for line in lines if "-->" in line]
    assert len(arrows) == len({(other, node.key) for node in nodes for other in node.reads})


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


def test_show_writes_the_picture_and_prints_mermaid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "net.svg"
    lines = run(capsys, "show", str(FILES[0]), "--svg", str(target), "--mermaid")
    assert lines[0] == "flowchart TD"
    assert ElementTree.fromstring(target.read_text()).tag == f"{SVG}svg"
    title = json.loads(FILES[0].read_text())["description"]
    assert title[:20] in target.read_text()


def test_options_are_shown_as_they_were_set(tmp_path: Path) -> None:
    model = json.loads((ZOO / "sample" / "sentence_bilstm.json").read_text())
    model["heads"]["label"] |= {"loss": {"name": "focal", "gamma": 1.5}, "hidden_dims": [3, 4]}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    assert describe(path)[-1].options == ["loss={name: focal, gamma: 1.5}", "hidden_dims=[3, 4]"]


def test_a_wrong_model_draws_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["show", str(tmp_path / "none.json"), "--svg", str(tmp_path / "net.svg")])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        f"error: {tmp_path / 'none.json'}: there is no such file; check its name.\n"
    )
    assert list(tmp_path.iterdir()) == []
