"""One label of a text."""

from nlp_core.kinds.base import (
    AVERAGED_METRICS,
    LABEL,
    OPERATING_POINT_METRICS,
    TEXT_COLUMNS,
    Column,
    Kind,
    Target,
    UserFile,
    register,
)

CLASSIFICATION = register(
    Kind(
        name="classification",
        columns=(*TEXT_COLUMNS, Column(LABEL, "text")),
        targets=(Target(LABEL, "text", "text"),),
        texts=("text",),
        readers=("tsv",),
        metrics=tuple(
            sorted(
                (
                    *("accuracy", "auc", "auc@LABEL", "average_precision"),
                    *("average_precision@LABEL", "expected_calibration_error", "f1", "f1@LABEL"),
                    *("matthews", "precision", "precision@LABEL", "recall", "recall@LABEL"),
                    *AVERAGED_METRICS,
                    *OPERATING_POINT_METRICS,
                )
            )
        ),
        metrics_module="nlp_core.metrics.classification",
        user_file=UserFile(("accuracy", "macro_f1")),
        has_confusion=True,
    )
)
