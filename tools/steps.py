"""Run several make targets one after another, all of them, and sum up: what `make test` does."""

from __future__ import annotations

import subprocess
import sys
import time


def main(steps: list[str]) -> int:
    results: list[tuple[str, bool, float]] = []
    for step in steps:
        start = time.monotonic()
        done = subprocess.run(["make", "--no-print-directory", step], check=False)
        results.append((step, done.returncode == 0, time.monotonic() - start))
    print("\nSummary")
    for step, passed, seconds in results:
        print(f"  {'ok' if passed else 'FAILED':7}{step:13}{seconds:7.1f} s")
    print(f"  {'':7}{'total':13}{sum(seconds for *_, seconds in results):7.1f} s")
    return 0 if all(passed for _, passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
