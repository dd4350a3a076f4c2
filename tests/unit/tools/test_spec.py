"""`make test` tries every item of docs/spec on the real component, also in its short form."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT
from tools.spec import tried_nightly_only


def marked(*ids: str, real: bool = True, nightly: bool = False) -> dict[str, object]:
    return {"ids": list(ids), "real": real, "nightly": nightly}


def test_items_that_only_nightly_tests_try_are_named():
    tests = {
        "both": marked("L2-01", "L2-02", nightly=True),
        "short": marked("L2-01"),
        "values": marked("L2-02", "L2-03", real=False),
    }
    assert tried_nightly_only(tests) == ["L2-02"]


def test_items_without_a_real_test_are_not_named():
    assert tried_nightly_only({"values": marked("L2-03", real=False)}) == []


@pytest.mark.slow
def test_short_form_leaves_out_nightly_tests():
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    path = "tests/conformance/common/test_mutations.py"
    found = [
        subprocess.run(
            [*argv, *options, path], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for options in ([], ["--short"])
    ]
    # Both mutations break the same promise.
    assert ["[skip_numbers]" in text for text in found] == [True, True]
    assert ["[count_by_two]" in text for text in found] == [True, False]
