"""The source that reads a file passes the suite that every source passes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings

from netfw.drivers.registry.loader import load
from netfw.drivers.state_source import StateSource
from netfw.state.file import FileSource
from netfw.testing.conformance.state_source.environment import SourceEnvironment
from netfw.testing.conformance.state_source.suite import StateSourceConformance
from tests.conformance.state_source.file_environment import FileBackend

pytestmark = pytest.mark.services

LONG = bool(os.environ.get("NETFW_LONG"))


class OnAFile(StateSourceConformance):
    name: ClassVar[str]

    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, self.name)
            source = FileSource(path, page=page, debounce=0, poll=0.05)
            yield SourceEnvironment(source, FileBackend(source, path))
            source.close()


@pytest.mark.nightly
@pytest.mark.spec("DRV-21", "RPC-08")
class TestJsonSource(OnAFile):
    name = "topology.json"
    examples = settings(OnAFile.examples, max_examples=150 if LONG else 30)


@pytest.mark.spec("DRV-21", "RPC-08")
class TestYamlSource(OnAFile):
    name = "topology.yaml"
    examples = settings(OnAFile.examples, max_examples=30 if LONG else 10)


def test_the_source_that_reads_a_file_loads_by_its_name() -> None:
    assert load(StateSource, "file") is FileSource
