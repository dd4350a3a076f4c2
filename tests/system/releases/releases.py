"""Two releases of netfw: that of this checkout and the previous one, each in an environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from attrs import frozen

from netfw.testing.lab.daemon import PrivateDaemon
from tools.previous_release import interpreter, previous_commit


@frozen
class Release:
    """An installed release of netfw."""

    name: str
    python: Path

    def use(self, daemon: PrivateDaemon) -> None:
        """Have *daemon* run this release from its next start on."""
        daemon.python = str(self.python)
        daemon.environment["PYTHONSAFEPATH"] = "1"  # not the checkout, where tests are run

    def run(self, module: str, *words: str) -> str:
        """Run a command of this release; return its output."""
        done = subprocess.run(
            [self.python, "-P", "-m", module, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{self.name}: {module} {' '.join(words)}: {done.stderr}"
        return done.stdout


def present_release() -> Release:
    """Return the release of this checkout."""
    return Release("the new release", Path(sys.executable))


def previous_release() -> Release:
    """Return the previous release, which ``make upgrade`` installs before the tests."""
    python = interpreter(previous_commit())
    assert python.exists(), f"{python} is missing: run .venv/bin/python tools/previous_release.py"
    return Release("the previous release", python)
