"""Coverage of docs/spec: `ID  KIND  COUNT  TITLE` for every item, then a total per page.

KIND is `real` (at least one passing test on the real component), `pure` (values only) or `none`.
Outcomes are those of each test's last run; tests that have none yet are run first.

With ``--short``, run nothing: name the items that `make test` does not try on the real component,
since all their tests are marked nightly.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGES = Path("docs/spec")
RESULTS = Path(".netfw/spec-results.json")
ITEM = re.compile(r"- ([A-Z0-9]+-\d+) (.*)")


def items(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each id of a page with its title: the first sentence, cut to a line."""
    text = re.sub(r"\n  +", " ", page.read_text())
    for line in text.splitlines():
        if found := ITEM.match(line):
            title = re.split(r"(?<=[a-z0-9)`])[.;] ", found[2])[0]
            yield found[1], title if len(title) <= 90 else f"{title[:87]}..."


def marked_tests() -> dict[str, dict[str, Any]]:
    """Return every test that carries ids: nodeid -> {ids, real}."""
    listing = RESULTS.with_name("spec-collected.json")
    listing.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests", "samples"]
    done = subprocess.run(
        [*argv, f"--spec-collect={listing}"], capture_output=True, text=True, check=False
    )
    if not listing.exists():
        sys.exit(f"the tests cannot be collected:\n{done.stdout}{done.stderr}")
    found: dict[str, dict[str, Any]] = json.loads(listing.read_text())
    return found


def outcomes(tests: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the last outcome of each test; tests that were never run are run now."""
    recorded = _recorded()
    if missing := [nodeid for nodeid in tests if nodeid not in recorded]:
        print(f"running {len(missing)} tests that have no result yet ...", file=sys.stderr)
        argv = [sys.executable, "-m", "pytest", "-q", "--sandbox", *missing]
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)
        recorded = _recorded()
    return recorded


def _recorded() -> dict[str, str]:
    if not RESULTS.exists():
        return {}
    recorded: dict[str, str] = json.loads(RESULTS.read_text())
    return recorded


def tried_nightly_only(tests: dict[str, dict[str, Any]]) -> list[str]:
    """Return the items that have tests on the real component, all of them nightly."""
    real = [test for test in tests.values() if test["real"]]
    tried = {spec_id for test in real for spec_id in test["ids"]}
    return sorted(tried - {i for test in real if not test["nightly"] for i in test["ids"]})


def check_short_form() -> int:
    if missing := tried_nightly_only(marked_tests()):
        print(f"`make test` does not try {', '.join(missing)}: take `nightly` off one test of each")
    return 1 if missing else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="run nothing, as above")
    if parser.parse_args().short:
        return check_short_form()
    tests = marked_tests()
    recorded = outcomes(tests)
    passed = {nodeid: test for nodeid, test in tests.items() if recorded.get(nodeid) == "passed"}
    known: set[str] = set()
    totals = []
    for page in sorted(PAGES.glob("*.md")):
        kinds = []
        for spec_id, title in items(page):
            known.add(spec_id)
            proofs = [test for test in passed.values() if spec_id in test["ids"]]
            kind = "real" if any(t["real"] for t in proofs) else "pure" if proofs else "none"
            kinds.append(kind)
            print(f"{spec_id:8}  {kind:4}  {len(proofs):3}  {title}")
        if kinds:
            totals.append((page.stem, kinds))
    print()
    for name, kinds in totals:
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("real", "pure", "none"))
        print(f"{name:15} {len(kinds):3} items: {counts}")
    strange = {i for test in tests.values() for i in test["ids"]} - known
    if strange:
        print(f"\nmarked in tests but not in {PAGES}: {', '.join(sorted(strange))}")
    return 1 if strange else 0


if __name__ == "__main__":
    sys.exit(main())
