"""Any number of labels of a text."""

from nlp_core.kinds.base import (
    AVERAGED_METRICS,
    LABELS,
    OPERATING_POINT_METRICS,
    TEXT_COLUMNS,
    Column,
    Kind,
    Target,
    UserFile,
    register,
)

MULTI_LABEL = register(
    Kind(
        name="multi_label",
        columns=(*TEXT_COLUMNS, Column(LABELS, "texts")),
        targets=(Target(LABELS, "texts", "texts"),),
        texts=("text",),
        readers=("tsv",),
        metrics=tuple(
            sorted(
                (
                    *("auc@LABEL", "average_precision", "average_precision@LABEL", "exact_match"),
                    *("f1@LABEL", "precision@LABEL", "recall@LABEL"),
                    *AVERAGED_METRICS,
                    *OPERATING_POINT_METRICS,
                )
            )
        ),
        metrics_module="nlp_core.metrics.multi_label",
        user_file=UserFile(
            ("micro_f1", "macro_f1", "exact_match"), label=LABELS, keys=("label_separator",)
        ),
    )
)
