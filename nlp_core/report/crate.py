"""Pack a table as a Workflow Run RO-Crate: the workflow, what it read and wrote, and who ran it.

A crate is a folder of files with a description, `ro-crate-metadata.json`, that other tools read.
Source: https://w3id.org/ro/wfrun/workflow/0.5, on RO-Crate 1.1.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nlp_core.config.base import read_mapping
from nlp_core.config.dataset import DatasetConfig, read_dataset
from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.config.published import read_published
from nlp_core.files import replacing_folder, write_json
from nlp_core.report.cost import CellCost, find_costs, measure_costs, read_costs
from nlp_core.report.crate_graph import CrateGraph, Entity, compact, require_file, slug
from nlp_core.report.examples import find_examples
from nlp_core.report.results import CellResult, Results, read_results

METADATA = "ro-crate-metadata.json"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
TERMS = "https://w3id.org/ro/terms/workflow-run#"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
WORKFLOW = "Snakefile"
ENGINES = {
    "snakemake": "https://snakemake.github.io",
    "dvc": "https://dvc.org",
    "torch": "https://pytorch.org",
}


def write_crate(table: str, params: Params, root: Path, folder: Path, *, agent: str | None) -> int:
    """Write the crate of a measured table and return the number of its files.

    Args:
        table: its name.
        params: params.yaml and grid/.
        root: the project's root.
        folder: the folder to make, or to replace.
        agent: who ran the workflow; None: the authors in CITATION.cff.

    Raises:
        ConfigError: a file that a person writes is missing or wrong.
        DataError: the table is not measured, or a file is damaged.
    """
    results = read_results(root / "results" / f"{table}.json")
    crate = _Crate(table, results, params, root, agent)
    entities, files = crate.build(), crate.graph.files
    with replacing_folder(folder) as temporary:
        for path in files:
            target = temporary / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, target)
        context = [CONTEXT, {name: f"{TERMS}{name}" for name in ("sha256", "resourceUsage")}]
        write_json(temporary / METADATA, {"@context": context, "@graph": entities})
    return len(files)


class _Crate:
    """A table as the entities of a crate."""

    def __init__(
        self, table: str, results: Results, params: Params, root: Path, agent: str | None
    ) -> None:
        self._table, self._results, self._params, self._root = table, results, params, root
        self.graph = CrateGraph(root)
        self._citation = read_mapping(require_file(root, "CITATION.cff"))
        self._costs = measure_costs(results, params, read_costs(table, root))
        self._address = self._citation.get("repository-code") or self._citation.get("url")
        self._publisher = self._add_publisher()
        self._agent = self._publisher
        if agent is not None:
            self._agent = self.graph.add(f"#agent-{slug(agent)}", "Person", name=agent)

    def build(self) -> list[Entity]:
        """Return all entities, the description of the crate first."""
        licence = self._add_licence()
        inputs, outputs = self._add_inputs(), self._add_outputs()
        workflow = self._add_workflow(inputs, outputs, licence)
        actions = [
            self._add_run(workflow, inputs, outputs),
            *(self._add_cell(name) for name in self._costs),
        ]
        for path in ("CITATION.cff", "LICENSE", "environment.yml", "requirements.lock", "dvc.lock"):
            if (self._root / path).exists():
                self.graph.add_file(path, path)
        self.graph.add_file("README.md", "Reglue", about={"@id": "./"})
        published = read_published(self._root / "reports" / "published" / f"{self._table}.yaml")
        root = {
            "@id": "./",
            "@type": "Dataset",
            "name": f"{published.title} ({self._table})",
            "description": published.description.strip() or published.title,
            "datePublished": self._find_date()[:10],
            "license": licence,
            "conformsTo": [self._add_profile(address) for address in PROFILES],
            "hasPart": [{"@id": path} for path in self.graph.files],
            "author": self._publisher,
            "publisher": self._publisher,
            "mainEntity": workflow,
            "mentions": actions,
        }
        conforms = [{"@id": CONTEXT.removesuffix("/context")}, {"@id": [*PROFILES][-1]}]
        about = {"@id": METADATA, "@type": "CreativeWork", "about": {"@id": "./"}}
        return [about | {"conformsTo": conforms}, compact(root), *self.graph.entities.values()]

    def _add_publisher(self) -> Entity:
        names = ", ".join(_name_author(author) for author in self._citation["authors"])
        return self.graph.add("#publisher", "Organization", name=names, url=self._address)

    def _add_licence(self) -> Entity:
        name = str(self._citation["license"])
        address = f"https://spdx.org/licenses/{name}"
        text = "Of code, configuration, results and reports; each source has its own."
        return self.graph.add(address, "CreativeWork", name=name, identifier=name, description=text)

    def _add_profile(self, address: str) -> Entity:
        name, number = PROFILES[address]
        return self.graph.add(address, "CreativeWork", name=name, version=number)

    def _add_inputs(self) -> list[Entity]:
        table = self._table
        models = self._list_models()
        sources = {task: read_dataset(task, self._root / "sources") for task in self._list_tasks()}
        files = {
            "params": (
                "What all tables have in common",
                [self.graph.add_file("params.yaml", "params")],
            ),
            "grid": ("Cells and recipes", [self.graph.add_file(f"grid/{table}.yaml", "grid")]),
            "published": (
                "The published numbers",
                [self.graph.add_file(f"reports/published/{table}.yaml", "published numbers")],
            ),
            "models": ("The models", [self.graph.add_file(path, path) for path in models]),
            "sources": (
                "What to download, with digests and licences",
                [self._add_source(name, config) for name, config in sources.items()],
            ),
        }
        return [
            self.graph.add_parameter(name, "input", text, found)
            for name, (text, found) in files.items()
            if found
        ]

    def _add_source(self, name: str, config: DatasetConfig) -> Entity:
        """Add the description of a source, with the accepted digest of each of its files."""
        digests = [
            self.graph.add(
                f"#sha256-{name}-{slug(file)}-{digest[:12]}",
                "PropertyValue",
                name=file,
                propertyID="sha256",
                value=digest,
                description=label,
            )
            for file, digest, label in _list_digests(config)
        ]
        return self.graph.add_file(
            f"sources/{name}.yaml",
            config.title,
            license=config.licence,
            citation=" ".join(config.citation.split()),
            isBasedOn=config.homepage,
            additionalProperty=digests,
        )

    def _list_models(self) -> list[str]:
        """Return the model files; the model of a pretrained cell may be a downloaded folder."""
        models = dict.fromkeys(cell.model for cell in self._results.cells.values())
        return [path for path in models if (self._root / path).is_file()]

    def _list_tasks(self) -> list[str]:
        """Return the sources of the table's cells: their tasks, vectors and encoders."""
        params, found = self._params, []
        for name in self._costs:
            item = params.experiments.get(name)
            if item is None:
                encoder = params.encoders[name]
                found += [encoder.data, encoder.measured_on]
            else:
                found += params.list_tasks(item.data)
            found.append((item or params.encoders[name]).init.rpartition("/")[2])
        return [name for name in dict.fromkeys(found) if name in params.tasks]

    def _add_outputs(self) -> list[Entity]:
        table = self._table
        files = {
            "results": [self.graph.add_file(f"results/{table}.json", "measured numbers")],
            "report": [self.graph.add_file(f"reports/{table}.md", "report")],
            "figure": [self.graph.add_file(f"reports/{table}.svg", "figure")],
            "predictions": [self.graph.add_file(path, path) for path in self._list_examples()],
        }
        if find_costs(table, self._root).exists():
            files["cost"] = [self.graph.add_file(f"results/cost/{table}.json", "cost of training")]
        return [
            self.graph.add_parameter(name, "output", f"The {name} of the table", found)
            for name, found in files.items()
            if found
        ]

    def _list_examples(self) -> list[str]:
        paths = (find_examples(self._table, name, self._root) for name in self._results.cells)
        return [path.relative_to(self._root).as_posix() for path in paths if path.exists()]

    def _add_workflow(self, inputs: list[Entity], outputs: list[Entity], licence: Entity) -> Entity:
        stages = [
            self._add_stage(name) for name in ("preprocess", "finetune", "evaluate", "report")
        ]
        language = self.graph.add(
            "https://w3id.org/workflowhub/workflow-ro-crate#snakemake",
            "ComputerLanguage",
            name="Snakemake",
            identifier={"@id": ENGINES["snakemake"]},
            url={"@id": ENGINES["snakemake"]},
        )
        engines = [
            self.graph.add(url, "SoftwareApplication", name=name, url=url, softwareVersion=found)
            for name, url in ENGINES.items()
            if (found := _find_version(name))
        ]
        return self.graph.add_file(
            WORKFLOW,
            "Reglue: the stages of a result table",
            "SoftwareSourceCode",
            "ComputationalWorkflow",
            programmingLanguage=language,
            conformsTo={"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
            input=inputs,
            output=outputs,
            license=licence,
            creator=self._agent,
            version=self._name_version(),
            url=self._address,
            softwareRequirements=engines,
            hasPart=[
                self.graph.add_file("dvc.yaml", "dvc.yaml: the stages and what they read"),
                *stages,
            ],
        )

    def _add_stage(self, name: str) -> Entity:
        return self.graph.add_file(
            f"stages/{name}.py",
            f"the stage {name}",
            "SoftwareSourceCode",
            version=self._name_version(),
            url=self._address,
        )

    def _name_version(self) -> str:
        commit = _ask_git(self._root, "rev-parse", "HEAD")
        return f"{self._citation['version']}{f' ({commit})' if commit else ''}"

    def _add_run(self, workflow: Entity, inputs: list[Entity], outputs: list[Entity]) -> Entity:
        return self.graph.add(
            "#run",
            "CreateAction",
            name=f"Run of the table {self._table}",
            description=f"snakemake --cores N reports/{self._table}.md",
            instrument=workflow,
            object=[file for item in inputs for file in self.graph.examples[item["@id"]]],
            result=[file for item in outputs for file in self.graph.examples[item["@id"]]],
            agent=self._agent,
            endTime=self._find_date(),
            actionStatus="http://schema.org/CompletedActionStatus",
        )

    def _add_cell(self, name: str) -> Entity:
        """Add the training of a cell: its model, its data, its weights and what it cost."""
        cell, cost = self._results.cells[name], self._costs[name]
        config = self._params.experiments.get(name)
        stage = "finetune" if isinstance(config, ExperimentConfig) else "pretrain"
        if stage == "pretrain":
            self._add_stage(stage)
        tasks = self._params.list_tasks(config.data) if config else [*cell.data]
        sources = [f"sources/{task}.yaml" for task in tasks]
        files = [cell.model, f"grid/{self._table}.yaml", *sources]
        predictions = find_examples(self._table, name, self._root).relative_to(self._root)
        results = [path for path in self.graph.files if path == predictions.as_posix()]
        weights = [
            self.graph.add_value(f"#weights-{name}-{seed}", f"weights of seed {seed}", digest)
            for seed, digest in _list_weights(cell)
        ]
        return self.graph.add(
            f"#train-{name}",
            "CreateAction",
            name=f"Training of {name}",
            description=f"python -m stages.{stage} {name}",
            instrument={"@id": f"stages/{stage}.py"},
            object=[{"@id": path} for path in files if path in self.graph.files],
            result=[*({"@id": path} for path in results), *weights],
            agent=self._agent,
            resourceUsage=self._add_usage(name, cost),
            **_list_times(cost),
        )

    def _add_usage(self, name: str, cost: CellCost) -> list[Entity]:
        values = {"coreSeconds": round(cost.core_seconds, 1), "peakBytes": cost.peak_bytes}
        if not cost.runs:
            return []
        return [
            self.graph.add_value(f"#{key}-{name}", key, value)
            for key, value in values.items()
            if value is not None
        ]

    def _find_date(self) -> str:
        """Return when the results were committed, or else when they were written."""
        path = f"results/{self._table}.json"
        found = _ask_git(self._root, "log", "-1", "--format=%cI", "--", path)
        return found or _format_time((self._root / path).stat().st_mtime)


def _list_digests(config: DatasetConfig) -> Iterator[tuple[str, str, str | None]]:
    """Yield name, accepted sha256 and label of each file of a source."""
    if config.generator:
        yield from ((name, digest, None) for name, digest in config.generator.sha256.items())
    for file in config.files:
        yield from ((file.name, item.digest, item.label) for item in file.sha256)
        for member in file.members:
            yield from ((member.name, item.digest, item.label) for item in member.sha256)


def _list_weights(cell: CellResult) -> Iterator[tuple[str, str]]:
    yield from ((seed, run.weights) for seed, run in cell.runs.items() if run.weights)


def _list_times(cost: CellCost) -> Mapping[str, str]:
    """Return when the first seed of a cell began and the last one ended, as far as it is known."""
    spans = [(run.started, run.seconds) for run in cost.runs.values() if run.started is not None]
    if not spans:
        return {}
    start, end = min(spans)[0], max(started + seconds for started, seconds in spans)
    return {"startTime": _format_time(start), "endTime": _format_time(end)}


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _name_author(author: Mapping[str, str]) -> str:
    full = f"{author.get('given-names', '')} {author.get('family-names', '')}".strip()
    return author.get("name") or full


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _ask_git(root: Path, *arguments: str) -> str | None:
    """Return what Git answers; None: it answers nothing, or the root is no repository."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    return done.stdout.strip() or None if done.returncode == 0 else None
