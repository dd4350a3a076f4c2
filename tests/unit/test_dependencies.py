"""What netfw imports is declared, so that no other package has to bring it by chance."""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OURS = {"netfw", "netfw_drivers"}
OPTIONAL = {"dev", "bench", "docs"}
"""Extras for work on netfw itself: nothing that is shipped may need them."""
ELSEWHERE = {"openstack", "_typeshed"}
"""Clients that `netfw demo` runs from a checkout, and types of the standard library."""


def imported() -> Iterator[str]:
    """Yield the top-level name of every import, wherever it is in a module."""
    for package in sorted(OURS):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from (alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    assert node.module
                    yield node.module.partition(".")[0]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    extras = parser["options.extras_require"]
    texts = [parser["options"]["install_requires"]]
    texts += [text for extra, text in extras.items() if extra not in OPTIONAL]
    lines = [line for text in texts for line in text.splitlines()]
    names = [re.match(r"[A-Za-z0-9._-]+", line) for line in lines if not line.startswith("#")]
    return {normalized(found[0]) for found in names if found}


@pytest.mark.spec("DRV-34")
def test_every_import_of_netfw_is_a_declared_dependency() -> None:
    names = set(imported()) - OURS - ELSEWHERE - set(sys.stdlib_module_names)
    distributions, known = packages_distributions(), declared()
    undeclared = {
        name: distributions.get(name)
        for name in names
        if not {normalized(each) for each in distributions.get(name, ())} & known
    }
    assert undeclared == {}
