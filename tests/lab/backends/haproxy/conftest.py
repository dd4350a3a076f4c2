from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from tests.lab.backends.haproxy.environment import HaproxyEnvironment


@pytest.fixture
def env() -> Iterator[HaproxyEnvironment]:
    """Yield a namespace with a guest, a metadata agent, and drivers between them."""
    sandbox.require()
    directory = Path(tempfile.mkdtemp(prefix="meta-", dir="/run"))
    directory.chmod(0o755)
    made = HaproxyEnvironment(directory)
    yield made
    made.close()
    shutil.rmtree(directory)
