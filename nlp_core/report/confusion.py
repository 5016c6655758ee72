"""Write a confusion matrix as markdown."""

from nlp_core.metrics.confusion import Confusion
from nlp_core.report.markdown import render_rows


def render_confusion(confusion: Confusion) -> str:
    """Return a markdown table: a row for each right label, a column for each predicted one.

    The last column and the last row hold the sums.
    """
    header = ["right / predicted", *confusion.labels, "all"]
    rows = [
        [label, *(str(count) for count in counts), str(counts.sum())]
        for label, counts in zip(confusion.labels, confusion.counts, strict=True)
    ]
    sums = confusion.counts.sum(0)
    rows.append(["all", *(str(count) for count in sums), str(sums.sum())])
    return render_rows(header, rows)
