"""`reglue site`: the pages are complete, linked, the same bytes again, and load nothing."""

import posixpath
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.cli.site import FOLDER
from nlp_core.errors import ConfigError, DataError
from nlp_core.report.results import Results, read_results
from nlp_core.site.build import ASSETS, write_site
from nlp_core.site.project import Project, read_project
from tests.site_reader import ReadSite

ROOT = Path(__file__).resolve().parent.parent
TABLES = [path.stem for path in sorted((ROOT / "results").glob("*.json"))]
MOST_BYTES_A_PAGE = 40_000  # on average; the number of pages grows with the cells


def read_measured(table: str) -> Results:
    return read_results(table, ROOT)


@pytest.fixture(scope="module")
def project() -> Project:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return read_project(ROOT)


@pytest.fixture(scope="module")
def site(site_dir: Path) -> ReadSite:
    return ReadSite(site_dir)


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the sample table only."""
    for name in ("params.yaml", "grid", "zoo", "sources"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in (
        "reports/published/sample.yaml",
        "reports/sample.svg",
        "reports/headline.svg",
        "results/sample.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "results/examples/sample", tmp_path / "results/examples/sample")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def list_files(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
def test_the_site_is_the_same_bytes_again_and_old_pages_are_gone(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["site"])
    assert capsys.readouterr().out == "reports/html/index.html\n"
    first = list_files(sample / FOLDER)
    assert len(first) == 5 + len(ASSETS)
    (sample / FOLDER / "former.html").write_text("")
    write_site(sample, FOLDER)
    assert list_files(sample / FOLDER) == first


@pytest.mark.slow
def test_a_missing_figure_is_named_and_nothing_is_written(sample: Path) -> None:
    (sample / "reports" / "sample.svg").unlink()
    with pytest.raises(DataError, match=r"sample\.svg: .* run `python -m stages\.report sample`"):
        write_site(sample, FOLDER)
    assert not (sample / FOLDER).exists()


def test_a_folder_of_other_things_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ConfigError, match="found something other than a site"):
        write_site(ROOT, tmp_path)
    assert (tmp_path / "notes.txt").exists()


@pytest.mark.slow
def test_every_table_and_every_measured_cell_has_a_page(site: ReadSite) -> None:
    assert {"index.html", *(f"{table}.html" for table in TABLES)} < {*site.names}
    size = sum(map(len, list_files(site.folder).values()))
    assert size < MOST_BYTES_A_PAGE * len(site.names)
    for table in TABLES:
        for cell in read_measured(table).cells:
            own = [name for name in site.names if name.endswith(f"/{cell}.html")]
            assert own == [f"{table}/{cell}.html"] or table == "distillation"
            assert own


@pytest.mark.slow
def test_pages_are_well_formed_and_their_links_lead_somewhere(site: ReadSite) -> None:
    for name in site.names:
        page = site.read(name)
        assert page.open == [], name
        assert page.language == "en", name
        assert len(page.ids) == len({*page.ids}), name
        for link in page.links:
            if link.startswith(("https://", "http://")):
                continue
            path, _, anchor = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path or name))
            target = target if path else name
            assert (site.folder / target).is_file(), f"{name}: {link}"
            assert not anchor or anchor in site.read(target).ids, f"{name}: {link}"


@pytest.mark.slow
def test_pages_load_only_their_own_assets(site: ReadSite) -> None:
    for name in site.names:
        up = "../" * name.count("/")
        loads = [item for item in site.read(name).loads if not item.startswith("#")]
        expected = [f"{up}assets/site.css", f"{up}assets/site.js", "data:,"]
        assert sorted(loads) == sorted(expected), name
        forbidden = r"@import|url\((?!#)|<(iframe|object|embed|base|form|img)\b"
        assert not re.search(forbidden, site.read_text(name)), name


@pytest.mark.slow
def test_the_assets_load_nothing(site: ReadSite) -> None:
    for name in ASSETS:
        text = site.read_text(f"assets/{name}")
        assert not re.search(r"https?:|//cdn|@import|url\(|fetch\(|XMLHttp|import\(|Beacon", text)


@pytest.mark.slow
def test_pages_are_structured_for_a_screen_reader(site: ReadSite) -> None:
    for name in site.names:
        page = site.read(name)
        assert page.headings[0] == "h1", name
        assert page.headings.count("h1") == 1, name
        levels = [int(heading[1]) for heading in page.headings]
        assert all(after <= before + 1 for before, after in pairwise(levels)), name
        for table in page.tables:
            assert table.caption, name
            assert table.unscoped == 0, name
            assert len({len(row) for row in table.rows}) == 1, name


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_the_pages_of_cells_have_the_values_of_each_seed(table: str, site: ReadSite) -> None:
    for cell, result in read_measured(table).cells.items():
        if f"{table}/{cell}.html" not in site.names:
            continue  # a teacher has its page in its own table
        shown = {
            row["metric"].removesuffix(", less is better"): [*row.values()]
            for row in site.read(f"{table}/{cell}.html")
            .find_table("Metrics of each seed")
            .find_rows()
        }
        assert {*shown} == {*result.metrics}
        for name, score in result.metrics.items():
            values = [f"{value:,.2f}" for value in (score.mean, *score.values)]
            assert [text for text in shown[name] if text in values][: len(values)]
            assert shown[name][1] == values[0]
            places = [text for text in shown[name][3:-1] if text]
            assert places == values[1:]


@pytest.mark.slow
def test_the_pages_of_tables_have_each_number(project: Project, site: ReadSite) -> None:
    for table, comparison in project.tables.items():
        page = site.read(f"{table}.html")
        for part in comparison.parts:
            rows = page.find_table(part.config.title).find_rows()
            for row, entry in zip(rows, part.entries, strict=True):
                assert (row["model"], row["number"]) == (entry.row, entry.column)
                assert row["ours"] == (f"{entry.ours.mean:,.2f}" if entry.ours else "")
                assert row["verdict"].endswith(entry.verdict.text)
                if entry.number.value is not None:
                    value = f"{entry.number.value:,.{part.config.decimals}f}"
                    assert row["published"].startswith(value)


@pytest.mark.slow
def test_the_overview_counts_as_the_readme(project: Project, site: ReadSite) -> None:
    page = site.read("index.html")
    total = project.headline.total
    counts = [len(total.compared), total.num_good, total.num_below, total.num_not_run]
    assert page.find_table("Outcomes by table").rows[-1][1:5] == [*map(str, counts)]
    text = re.sub(r"<[^>]+>", "", site.read_text("index.html"))
    for count, name in zip(counts, ("numbers compared", "reproduced", "below"), strict=False):
        assert re.search(rf"{count}\s+\W?\s*{name}", text)
    compared = page.find_table("Compared numbers").rows[1:]
    assert len(compared) == len(total.compared) + len(total.honest)


@pytest.mark.slow
def test_the_pages_of_cells_slice_scores_by_traits(site: ReadSite) -> None:
    for name in ("glue/cola_bilstm", "conll2003/wlstm_crf", "wikiqa/cnn"):
        captions = [table.caption for table in site.read(f"{name}.html").tables]
        assert captions.count("By unseen words") == captions.count("By overlap with train") == 1
    rows = site.read("glue/cola_bilstm.html").find_table("By unseen words").find_rows()
    assert [row["words that train lacks"] for row in rows] == ["0", "1", "2 or more"]
    assert sum(int(row["examples"]) for row in rows) == 1043


def test_a_cell_that_is_not_run_says_what_trains_it(site: ReadSite) -> None:
    page = (site.folder / "gluonnlp/rte_bert_base.html").read_text()
    assert "Train it with <code>reglue run gluonnlp rte_bert_base</code>." in page
    measured = (site.folder / "gluonnlp/atis_minilm.html").read_text()
    assert "Train it with" not in measured
