"""Addresses and transports that are gone when a test ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from netfw.drivers.transport import Transport
from netfw.testing.lab.services.certificates import PrivateAuthority
from tests.lab.backends.transports.raw_client import RawClient, make


@pytest.fixture
def here() -> Iterator[Path]:
    """Yield a directory whose path is short enough for sockets, open to all users."""
    made = Path(tempfile.mkdtemp(prefix="wire-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """Yield a stack that is closed at the end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def transport(closing: ExitStack) -> Callable[..., Transport]:
    """Return a function that makes transports."""

    def made(**options: Any) -> Transport:
        transport = make(**options)
        closing.callback(transport.close)
        return transport

    return made


@pytest.fixture
def raw(closing: ExitStack) -> Callable[..., RawClient]:
    """Return a function that makes clients that send any frames."""

    def made(where: str | tuple[str, int]) -> RawClient:
        client = RawClient(where)
        closing.callback(client.close)
        return client

    return made


@pytest.fixture(scope="session")
def authority() -> Iterator[PrivateAuthority]:
    """Yield an authority that signs certificates of tests."""
    directory = Path(tempfile.mkdtemp(prefix="ca-"))
    yield PrivateAuthority(directory)
    shutil.rmtree(directory, ignore_errors=True)
