"""Print where docs/spec differs from ../shared/spec, when both exist."""

from __future__ import annotations

import filecmp
import sys
from pathlib import Path

OURS = Path("docs/spec")
THEIRS = Path("../shared/spec")


def main() -> int:
    if not THEIRS.is_dir():
        return 0
    names = {path.name for folder in (OURS, THEIRS) for path in folder.glob("*.md")}
    differing = [
        name
        for name in sorted(names)
        if not (OURS / name).exists()
        or not (THEIRS / name).exists()
        or not filecmp.cmp(OURS / name, THEIRS / name, shallow=False)
    ]
    for name in differing:
        print(f"{OURS / name} differs from {THEIRS / name}: look at what changed, copy the newer")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
