"""The transport without a broker passes the suite that all transports pass."""

from __future__ import annotations

import pytest

from tests.conformance.transport.socket_environment import (
    LocalTcpTransports,
    LocalTlsTransports,
    LocalTransports,
)

pytestmark = [pytest.mark.services, pytest.mark.spec("RPC-01", "RPC-06")]


class TestUnixSockets(LocalTransports):
    pass


@pytest.mark.nightly
class TestTcp(LocalTcpTransports):
    pass


class TestTls(LocalTlsTransports):
    pass
