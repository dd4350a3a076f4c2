"""A host with a switch, the driver on it, and instances with real clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dnsmasq_host import DnsmasqHost

from netfw.testing.lab.openvswitch import PrivateOvs


@pytest.fixture
def host(ovs: PrivateOvs, tmp_path: Path) -> Iterator[DnsmasqHost]:
    with DnsmasqHost(ovs, tmp_path) as made:
        yield made


@pytest.fixture
def again(host: DnsmasqHost) -> Callable[[], None]:
    """The agent is killed, and another one is started."""
    return host.restart
