"""A host with a switch, the driver on it, and instances with real clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab.namespaces import NamespaceContext
from netfw.testing.lab.openvswitch import PrivateOvs
from tests.lab.backends.dnsmasq.environment import DnsmasqHost


@pytest.fixture
def host(ovs: PrivateOvs, tmp_path: Path) -> Iterator[DnsmasqHost]:
    with DnsmasqHost(ovs, tmp_path) as made:
        yield made


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system with little room."""
    directory = tmp_path / "small"
    directory.mkdir()
    NamespaceContext().run(
        ["mount", "-t", "tmpfs", "-o", "size=512k,mode=755", "tmpfs", str(directory)]
    )
    yield directory
    NamespaceContext().run(["umount", "--lazy", str(directory)])
