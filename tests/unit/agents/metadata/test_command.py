"""``netfw-metadata-agent`` where something is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT_CHEROOT = """
import sys
sys.modules["cheroot"] = None
from netfw.cli.agents.metadata import main
sys.exit(main([]))
"""


@pytest.mark.slow
def test_without_its_http_library_it_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CHEROOT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.strip()) == (
        2,
        "netfw-metadata-agent: cheroot is missing: pip install 'netfw[metadata]'",
    )
