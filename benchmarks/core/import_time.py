"""What `import netfw` costs, beside the start of the interpreter itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.figure import Figure
from benchmarks.process_usage import children_cpu

RUNS = 15


def figures() -> Iterator[Figure]:
    bare = median(_cpu("pass") for _ in range(RUNS))
    ours = median(_cpu("import netfw") for _ in range(RUNS))
    yield Figure(
        name="core: import netfw, CPU",
        measured=max(0.0, ours - bare) * 1000,
        target=100,
        raw_seconds=bare,
        own_seconds=ours,
        unit="ms",
    )


def _cpu(code: str) -> float:
    before = children_cpu()
    subprocess.run([sys.executable, "-c", code], check=True)
    return children_cpu() - before
