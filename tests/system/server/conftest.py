"""A server that the tests of a session share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import openstack
import pytest

from netfw.testing.lab import sandbox
from tests.system.server.environment import RunningServer, running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server on SQLite, without authentication on loopback; not on the port of a cloud."""
    sandbox.require()
    with running_server(tmp_path_factory.mktemp("server"), 9690) as found:
        yield found
        assert "Traceback" not in found.log, found.log


@pytest.fixture(scope="session")
def cloud(server: RunningServer) -> Iterator[openstack.connection.Connection]:
    """Yield a connection of an unchanged openstacksdk to the server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK's own, of parts that nobody asked for
        connection = openstack.connection.Connection(
            auth_type="none", endpoint=server.url, network_endpoint_override=server.url
        )
    yield connection
    connection.close()
