"""Pack a table as a Workflow Run RO-Crate: the workflow, what it read and wrote, and who ran it.

A crate is a folder of files with a description, `ro-crate-metadata.json`, that other tools read.
Source: https://w3id.org/ro/wfrun/workflow/0.5, on RO-Crate 1.1.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nlp_core.config.dataset import DatasetConfig, read_dataset
from nlp_core.config.params import Params
from nlp_core.config.published import read_published
from nlp_core.errors import ConfigError
from nlp_core.files import ask_git, digest_file, replacing_folder, write_json
from nlp_core.processor import find_version
from nlp_core.report.citation import read_citation
from nlp_core.report.cost import CellCost, find_costs, measure_costs, read_costs
from nlp_core.report.examples import find_examples
from nlp_core.report.results import Results, find_results, read_results

METADATA = "ro-crate-metadata.json"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
TERMS = "https://w3id.org/ro/terms/workflow-run#"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
ENGINES = {
    "snakemake": "https://snakemake.github.io",
    "dvc": "https://dvc.org",
    "torch": "https://pytorch.org",
}
FORMATS = {
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".svg": "image/svg+xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
TIMES = ("startTime", "endTime")
Entity = dict[str, Any]  # Any: JSON-LD holds texts, numbers, references and lists of these


def write_crate(table: str, params: Params, root: Path, folder: Path, *, agent: str | None) -> int:
    """Write the crate of a measured table and return the number of its files.

    Args:
        folder: the folder to make, or to replace.
        agent: who ran the workflow; None: the authors in CITATION.cff.

    Raises:
        ConfigError: a file that a person writes is missing or wrong.
        DataError: the table is not measured, or a file is damaged.
    """
    crate = _Crate(read_results(table, root), params, root, agent)
    entities = crate.build()
    with replacing_folder(folder) as temporary:
        for path in crate.files:
            target = temporary / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, target)
        context = [CONTEXT, {name: f"{TERMS}{name}" for name in ("sha256", "resourceUsage")}]
        write_json(temporary / METADATA, {"@context": context, "@graph": entities})
    return len(crate.files)


class _Crate:
    """The entities of a table in the order they were added, and its files by path."""

    def __init__(self, results: Results, params: Params, root: Path, agent: str | None) -> None:
        self._table, self._results, self._params, self._root = results.table, results, params, root
        self._entities: dict[str, Entity] = {}
        self.files: list[str] = []
        self._costs = measure_costs(results, params, read_costs(self._table, root))
        self._citation = read_citation(self._require("CITATION.cff"))
        commit, url = ask_git(root, "rev-parse", "HEAD"), self._citation.url
        number = f"{self._citation.version}{f' ({commit})' if commit else ''}"
        self._release = {"version": number, "url": url}
        self._publisher = self._add(
            "#publisher", "Organization", name=self._citation.authors, url=url
        )
        self._agent = self._publisher
        if agent is not None:
            self._agent = self._add(f"#agent-{_slug(agent)}", "Person", name=agent)

    def build(self) -> list[Entity]:
        """Return all entities, the description of the crate first."""
        licence = self._add_licence()
        inputs, read = self._add_inputs(), [*self.files]
        outputs = self._add_outputs()
        written = self.files[len(read) :]
        workflow = self._add_workflow(inputs, outputs, licence)
        run = self._add_run(workflow, read, written)
        cells = [self._add_cell(name) for name in self._costs]
        for path in ("CITATION.cff", "LICENSE", "environment.yml", "requirements.lock", "dvc.lock"):
            if (self._root / path).exists():
                self._add_file(path, path)
        self._add_file("README.md", "Reglue", about={"@id": "./"})
        published = read_published(self._root / "reports" / "published" / f"{self._table}.yaml")
        profiles = [
            self._add(address, "CreativeWork", name=name, version=number)
            for address, (name, number) in PROFILES.items()
        ]
        root = {
            "@id": "./",
            "@type": "Dataset",
            "name": f"{published.title} ({self._table})",
            "description": published.description.strip() or published.title,
            "datePublished": self._find_date()[:10],
            "license": licence,
            "conformsTo": profiles,
            "hasPart": [{"@id": path} for path in self.files],
            "author": self._publisher,
            "publisher": self._publisher,
            "mainEntity": workflow,
            "mentions": [run, *cells],
        }
        conforms = [{"@id": CONTEXT.removesuffix("/context")}, {"@id": [*PROFILES][-1]}]
        about = {"@id": METADATA, "@type": "CreativeWork", "about": {"@id": "./"}}
        return [about | {"conformsTo": conforms}, _compact(root), *self._entities.values()]

    def _add(self, place: str, sort: str | list[str], **values: object) -> Entity:
        """Add an entity and return a reference to it."""
        self._entities[place] = {"@id": place, "@type": sort, **_compact(values)}
        return {"@id": place}

    def _add_file(self, path: str, name: str, *more_types: str, **values: object) -> Entity:
        """Add a file of the project, which goes into the crate under the same path."""
        source = self._require(path)
        if path not in self.files:
            self.files.append(path)
        return self._add(
            path,
            ["File", *more_types] if more_types else "File",
            name=name,
            encodingFormat=FORMATS.get(source.suffix, "text/plain"),
            contentSize=str(source.stat().st_size),
            sha256=digest_file(source),
            **values,
        )

    def _require(self, path: str) -> Path:
        if not (self._root / path).is_file():
            raise ConfigError(
                f"{self._root / path}: no such file, which a crate contains; run the "
                "command in the root of a project with it."
            )
        return self._root / path

    def _add_parameters(
        self, sort: str, parameters: Iterable[tuple[str, str, list[Entity]]]
    ) -> list[Entity]:
        """Add the workflow's parameters that have files, and refer to each from its files."""
        references = []
        for name, text, files in parameters:
            if not files:
                continue
            reference = self._add(
                f"#{sort}-{name}",
                "FormalParameter",
                name=name,
                description=text,
                additionalType="File",
                conformsTo={"@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"},
                workExample=files,
            )
            for file in files:
                self._entities[file["@id"]]["exampleOfWork"] = reference
            references.append(reference)
        return references

    def _add_value(self, place: str, name: str, value: str | float) -> Entity:
        return self._add(place, "PropertyValue", name=name, propertyID=name, value=value)

    def _add_licence(self) -> Entity:
        name = self._citation.licence
        address = f"https://spdx.org/licenses/{name}"
        text = "Of code, configuration, results and reports; each source has its own."
        return self._add(address, "CreativeWork", name=name, identifier=name, description=text)

    def _add_inputs(self) -> list[Entity]:
        add, grid = self._add_file, f"grid/{self._table}.yaml"
        published = f"reports/published/{self._table}.yaml"
        sources = {task: read_dataset(task, self._root / "sources") for task in self._list_tasks()}
        # the model of a pretrained cell may be a downloaded folder
        models = dict.fromkeys(cell.model for cell in self._results.cells.values())
        files = [path for path in models if (self._root / path).is_file()]
        return self._add_parameters(
            "input",
            [
                ("params", "What all tables have in common", [add("params.yaml", "params")]),
                ("grid", "Cells and recipes", [add(grid, "grid")]),
                ("published", "The published numbers", [add(published, "published numbers")]),
                ("models", "The models", [add(path, path) for path in files]),
                (
                    "sources",
                    "What to download, with digests and licences",
                    [self._add_source(name, config) for name, config in sources.items()],
                ),
            ],
        )

    def _add_source(self, name: str, config: DatasetConfig) -> Entity:
        """Add the description of a source, with the accepted digest of each of its files."""
        digests = [
            self._add(
                f"#sha256-{name}-{_slug(file)}-{digest[:12]}",
                "PropertyValue",
                name=file,
                propertyID="sha256",
                value=digest,
                description=label,
            )
            for file, digest, label in _list_digests(config)
        ]
        return self._add_file(
            f"sources/{name}.yaml",
            config.title,
            license=config.licence,
            citation=" ".join(config.citation.split()),
            isBasedOn=config.homepage,
            additionalProperty=digests,
        )

    def _list_tasks(self) -> list[str]:
        """Return the sources of the table's cells: their tasks, vectors and encoders."""
        params, found = self._params, []
        for name in self._costs:
            if name in params.experiments:
                found += params.list_tasks(params.experiments[name].data)
                init = params.experiments[name].init
            else:
                encoder = params.encoders[name]
                found += [encoder.data, encoder.measured_on]
                init = encoder.init
            found.append(init.rpartition("/")[2])
        return [name for name in dict.fromkeys(found) if name in params.tasks]

    def _add_outputs(self) -> list[Entity]:
        table, add = self._table, self._add_file
        paths = [self._find_predictions(name) for name in self._results.cells]
        files = {
            "results": [add(f"results/{table}.json", "measured numbers")],
            "report": [add(f"reports/{table}.md", "report")],
            "figure": [add(f"reports/{table}.svg", "figure")],
            "predictions": [add(path, path) for path in paths if (self._root / path).exists()],
        }
        if find_costs(table, self._root).exists():
            files["cost"] = [add(f"results/cost/{table}.json", "cost of training")]
        return self._add_parameters(
            "output", [(name, f"The {name} of the table", found) for name, found in files.items()]
        )

    def _find_predictions(self, cell: str) -> str:
        return find_examples(self._table, cell, Path()).as_posix()

    def _add_workflow(self, inputs: list[Entity], outputs: list[Entity], licence: Entity) -> Entity:
        stages = [
            self._add_stage(name) for name in ("preprocess", "finetune", "evaluate", "report")
        ]
        language = self._add(
            "https://w3id.org/workflowhub/workflow-ro-crate#snakemake",
            "ComputerLanguage",
            name="Snakemake",
            identifier={"@id": ENGINES["snakemake"]},
            url={"@id": ENGINES["snakemake"]},
        )
        engines = [
            self._add(url, "SoftwareApplication", name=name, url=url, softwareVersion=found)
            for name, url in ENGINES.items()
            if (found := find_version(name))
        ]
        description = self._add_file("dvc.yaml", "dvc.yaml: the stages and what they read")
        return self._add_file(
            "Snakefile",
            "Reglue: the stages of a result table",
            "SoftwareSourceCode",
            "ComputationalWorkflow",
            programmingLanguage=language,
            conformsTo={"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
            input=inputs,
            output=outputs,
            license=licence,
            creator=self._agent,
            softwareRequirements=engines,
            hasPart=[description, *stages],
            **self._release,
        )

    def _add_stage(self, name: str) -> Entity:
        path, title = f"stages/{name}.py", f"the stage {name}"
        return self._add_file(path, title, "SoftwareSourceCode", **self._release)

    def _add_run(self, workflow: Entity, read: list[str], written: list[str]) -> Entity:
        return self._add(
            "#run",
            "CreateAction",
            name=f"Run of the table {self._table}",
            description=f"snakemake --cores N reports/{self._table}.md",
            instrument=workflow,
            object=[{"@id": path} for path in read],
            result=[{"@id": path} for path in written],
            agent=self._agent,
            endTime=self._find_date(),
            actionStatus="http://schema.org/CompletedActionStatus",
        )

    def _add_cell(self, name: str) -> Entity:
        """Add the training of a cell: its model, its data, its weights and what it cost."""
        cell, cost = self._results.cells[name], self._costs[name]
        config = self._params.experiments.get(name)
        stage = "finetune" if config else "pretrain"
        if stage == "pretrain":
            self._add_stage(stage)
        tasks = self._params.list_tasks(config.data) if config else [*cell.data]
        sources = [f"sources/{task}.yaml" for task in tasks]
        read = [cell.model, f"grid/{self._table}.yaml", *sources]
        weights = [
            self._add_value(f"#weights-{name}-{seed}", f"weights of seed {seed}", run.weights)
            for seed, run in cell.runs.items()
            if run.weights
        ]
        predictions = self._find_predictions(name)
        return self._add(
            f"#train-{name}",
            "CreateAction",
            name=f"Training of {name}",
            description=f"python -m stages.{stage} {name}",
            instrument={"@id": f"stages/{stage}.py"},
            object=[{"@id": path} for path in read if path in self.files],
            result=[*({"@id": path} for path in self.files if path == predictions), *weights],
            agent=self._agent,
            resourceUsage=self._add_usage(name, cost) if cost.runs else [],
            **{name: _format_time(at) for name, at in zip(TIMES, cost.span or (), strict=False)},
        )

    def _add_usage(self, name: str, cost: CellCost) -> list[Entity]:
        values = {"coreSeconds": round(cost.core_seconds, 1), "peakBytes": cost.peak_bytes}
        return [
            self._add_value(f"#{key}-{name}", key, value)
            for key, value in values.items()
            if value is not None
        ]

    def _find_date(self) -> str:
        """Return when the results were committed, or else when they were written."""
        path = f"results/{self._table}.json"
        found = ask_git(self._root, "log", "-1", "--format=%cI", "--", path)
        return found or _format_time(find_results(self._table, self._root).stat().st_mtime)


def _compact(values: Mapping[str, Any]) -> Entity:
    """Return values without those that are None or empty, and lists of one item as the item."""
    kept = {key: value for key, value in values.items() if value not in (None, [])}
    return {
        key: value[0] if isinstance(value, list) and len(value) == 1 else value
        for key, value in kept.items()
    }


def _slug(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())


def _list_digests(config: DatasetConfig) -> Iterator[tuple[str, str, str | None]]:
    """Yield name, accepted sha256 and label of each file of a source."""
    if config.generator:
        yield from ((name, digest, None) for name, digest in config.generator.sha256.items())
    for file in config.files:
        yield from ((file.name, item.digest, item.label) for item in file.sha256)
        for member in file.members:
            yield from ((member.name, item.digest, item.label) for item in member.sha256)


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
