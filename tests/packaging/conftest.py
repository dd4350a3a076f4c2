"""The package, built once, and a machine on which tests install it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.packaging.machine import Machine, booted, file_system


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package of this checkout, or that in the directory NETFW_DEB (`make deb`)."""
    directory = Path(os.environ.get("NETFW_DEB", "") or tmp_path_factory.mktemp("deb"))
    if not list(directory.glob("netfw_*.deb")):
        subprocess.run([ROOT / "tools" / "build-deb", directory], cwd=ROOT, check=True)
    (found,) = directory.glob("netfw_*.deb")
    return found


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    with booted(file_system()) as made:
        yield made
