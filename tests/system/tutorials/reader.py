"""A reader of the pages."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from tests.system.tutorials.page import parse_page
from tests.system.tutorials.shell import TutorialShell


@frozen
class Reader:
    """A reader: a home directory, and the environment of the terminal."""

    home: Path
    environ: dict[str, str]

    def open_terminal(self) -> TutorialShell:
        """Return a shell in the home directory."""
        return TutorialShell(self.home, self.environ)

    def follow(self, page: Path) -> None:
        """Do what the page says."""
        with self.open_terminal() as shell:
            shell.execute(page, parse_page(page))
