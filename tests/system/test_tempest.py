"""A part of Tempest's network API tests; `make tempest` runs all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / "tempest" / "run.py"


@pytest.mark.spec("API-16", "API-10")
@pytest.mark.timeout(600)  # the first time Tempest is installed
def test_tempest_still_passes_what_it_passed():
    done = subprocess.run(
        [sys.executable, RUN, "--short"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
