"""What an audit found: the model of results/audit/<task>.json, which holds counts and no texts."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from nlp_core.errors import DataError

FOLDER = Path("results/audit")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Repeats(_Record):
    """A number of examples, by how texts are compared; the second includes the first."""

    exact: int
    normalised: int


class Overlap(_Record):
    """The examples of a split that are in train as well, or in what was held out of it."""

    exact: int
    normalised: int
    ngram: int
    """Of the long ones those that share 13 consecutive words with a text of train."""
    long: int
    """Those of 13 words or more in one text."""
    other_label: int
    """Normalised in train, but never with the same label."""


class Shift(_Record):
    """How far a distribution is from that of train."""

    distance: float
    """0 to 1: half the sum of differences of shares, or the largest difference of cumulative
    shares in a Kolmogorov-Smirnov test."""
    p: float
    """Of the chi-squared test, or of the Kolmogorov-Smirnov test."""


class SplitAudit(_Record):
    """What was found in one split."""

    examples: int
    labelled: int
    """Those that have a label."""
    repeated: Repeats
    """Those whose text an earlier example of the split has."""
    conflicting: Repeats
    """Those whose text another example of the split has with another label."""
    in_train: Overlap | None = None
    """None of train itself."""
    label_shift: Shift | None = None
    """None of train itself, without labels and with only one."""
    length_shift: Shift | None = None


class TaskAudit(_Record):
    """What was found in a task."""

    task: str
    kind: str
    data: str = ""
    """Digest of the data that was audited, as cells have it; empty of the user's files."""
    units: dict[str, dict[str, SplitAudit]]
    """By natural unit (texts, pairs, questions, contexts ...) and split."""


def find_audit(task: str, root: Path) -> Path:
    return root / FOLDER / f"{task}.json"


def read_audit(path: Path) -> TaskAudit:
    """Read a kept audit; raise DataError if the file is not what the audit writes."""
    try:
        return TaskAudit.model_validate_json(path.read_bytes())
    except ValidationError as err:
        raise DataError(
            f"{path}: is not what an audit writes: {err.errors()[0]['msg']}; run "
            f"`reglue data audit {path.stem} --keep`."
        ) from err
