"""What the processor is called, from what Linux reports."""

import platform
from pathlib import Path

from nlp_core.processor import name_processor

INFO = """processor\t: 0
vendor_id\t: GenuineIntel
model\t\t: 143
model name\t: Intel(R) Xeon(R): Processor

processor\t: 1
vendor_id\t: Other
"""


def test_the_first_processor_is_named(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(INFO)
    assert name_processor(info) == "Intel(R) Xeon(R): Processor"


def test_where_nothing_is_told_it_is_the_architecture(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("CPU implementer\t: 0x41\n")
    assert name_processor(info) == (platform.processor() or platform.machine())
