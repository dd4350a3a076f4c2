from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from tests.lab.backends.haproxy.environment import HaproxyPlace


@pytest.fixture
def place() -> Iterator[HaproxyPlace]:
    """A namespace with a guest, a metadata agent, and drivers between them."""
    sandbox.require()
    directory = Path(tempfile.mkdtemp(prefix="meta-", dir="/run"))
    directory.chmod(0o755)
    made = HaproxyPlace(directory)
    yield made
    made.close()
    shutil.rmtree(directory)
