"""Run several make targets, all of them, and sum up: what `make test` does.

One after another, but for those that are joined by a comma: they run side by side, and what each
says is shown when it has ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

Result = tuple[str, bool, float]


def run(step: str, *, aside: bool) -> Result:
    start = time.monotonic()
    command = ["make", "--no-print-directory", step]
    if not aside:
        passed = subprocess.run(command, check=False).returncode == 0
        return step, passed, time.monotonic() - start
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(command, check=False, stdout=said, stderr=subprocess.STDOUT)
        said.seek(0)
        sys.stdout.write(said.read())
        sys.stdout.flush()
    return step, done.returncode == 0, time.monotonic() - start


def run_together(steps: list[str]) -> list[Result]:
    if len(steps) > 1:
        print(f"\nside by side: {', '.join(steps)} ...", flush=True)
    with ThreadPoolExecutor(len(steps)) as pool:
        return list(pool.map(lambda step: run(step, aside=len(steps) > 1), steps))


def main(groups: list[str]) -> int:
    begun = time.monotonic()
    results = [result for group in groups for result in run_together(group.split(","))]
    print("\nSummary")
    for step, passed, seconds in results:
        print(f"  {'ok' if passed else 'FAILED':7}{step:20}{seconds:7.1f} s")
    print(f"  {'':7}{'total':20}{time.monotonic() - begun:7.1f} s")
    return 0 if all(passed for _, passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
