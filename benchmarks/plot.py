"""A picture of how cost grows with size, beside the raw tool's."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.figure import Figure


def plot_sizes(figure: Figure, directory: Path) -> Path | None:
    """Draw seconds over size for the raw tool and for netfw; None without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("no plot: pip install 'netfw[bench]'")
        return None
    mpl.use("Agg")
    from matplotlib import pyplot

    sizes = sorted(figure.sizes)
    drawing, axes = pyplot.subplots(figsize=(6, 4))
    axes.plot(sizes, [figure.sizes[size][0] for size in sizes], "o--", label="raw tool")
    axes.plot(sizes, [figure.sizes[size][1] for size in sizes], "o-", label="netfw")
    axes.set(title=figure.name, xlabel="size", ylabel="seconds", ylim=(0, None))
    axes.legend()
    axes.grid(alpha=0.3)
    slug = re.sub(r"[^a-z0-9]+", "-", figure.name.lower()).strip("-")
    path = directory / f"{slug}.svg"
    drawing.tight_layout()
    drawing.savefig(path)
    pyplot.close(drawing)
    return path
