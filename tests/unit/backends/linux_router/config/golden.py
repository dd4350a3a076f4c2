"""Golden files of rendered configurations; ``NETFW_GOLDEN=1 pytest`` writes all anew."""

from __future__ import annotations

import os
from pathlib import Path


def check_golden(path: Path, text: str) -> None:
    """Compare *text* with the golden file at *path*."""
    if os.environ.get("NETFW_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
