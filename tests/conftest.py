"""Mark tests by folder, so that each step of `make test` selects by marker and none is left out."""

from __future__ import annotations

from configparser import ConfigParser
from importlib.metadata import distribution
from itertools import groupby
from pathlib import Path

import pytest

MARKED_FOLDERS = {
    "lab/agents/dhcp": "services",
    "lab/agents/l3": "services",
    "lab/agents/metadata": "services",
    "lab/backends/dnsmasq": "services",
    "lab/backends/haproxy": "services",
    "lab/backends/transports": "server",
    "lab/linux/service_netns": "services",
    "lab/server": "server",
}
DESELECTED_MARKS = {
    "not services and not server": frozenset({"services", "server"}),
    "services": frozenset({"server"}),
    "server": frozenset({"services"}),
}
"""By the expression that a step of `make test` gives, the marks of folders without its tests."""
_HERE = Path(__file__).parent
_REINSTALL = "rm -rf netfw.egg-info; pip install --no-deps --no-build-isolation -e ."


def pytest_sessionstart() -> None:
    """Stop if the installed entry points are stale: an editable installation keeps the old ones,
    and so does the folder that a build leaves in the checkout."""
    stated = _entry_points((_HERE.parent / "entry_points.txt").read_text())
    if stated != _entry_points(distribution("netfw").read_text("entry_points.txt") or ""):
        pytest.exit(f"entry_points.txt has changed since netfw was installed: {_REINSTALL}", 4)


def _entry_points(text: str) -> dict[str, dict[str, str]]:
    parser = ConfigParser(delimiters=("=",), interpolation=None)
    parser.read_string(text)
    return {section: dict(parser[section]) for section in parser.sections()}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders whose mark a step deselects: importing their modules takes seconds."""
    deselected = DESELECTED_MARKS.get(config.option.markexpr, frozenset())
    folders = (folder for folder, mark in MARKED_FOLDERS.items() if mark in deselected)
    return True if any(collection_path == _HERE / folder for folder in folders) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for path, tests in groupby(items, key=lambda item: item.path):  # one path for many tests
        marks = [mark for folder, mark in MARKED_FOLDERS.items() if _is_in(path, folder)]
        for item in tests:
            for mark in marks:
                item.add_marker(mark)


def _is_in(path: Path, folder: str) -> bool:
    return path.is_relative_to(_HERE / folder)
