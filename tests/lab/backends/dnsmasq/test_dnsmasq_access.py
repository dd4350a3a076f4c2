"""A dnsmasq that gave up root's rights reads its files, or it is said why it cannot."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from netfw.testing.conformance.dhcp.factories import make_network
from tests.lab.backends.dnsmasq.environment import DnsmasqHost


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Yield a directory that all users may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def unprivileged(host: DnsmasqHost, open_path: Path) -> DnsmasqHost:
    """Return a host whose dnsmasq runs as its default user."""
    host.settings = evolve(host.settings, confs=open_path / "state" / "dhcp", user=None)
    host.restart()
    return host


@pytest.mark.spec("DHCP-40")
def test_whatever_the_umask_says_dnsmasq_can_read_its_files(unprivileged: DnsmasqHost) -> None:
    former = os.umask(0o077)
    try:
        net = make_network()
        assert unprivileged.put(net).ok
        port = net.tenant()
        assert unprivileged.put(port).ok, "which comes when dnsmasq has no rights any more"
        lease = unprivileged.lease(port)
    finally:
        os.umask(former)
    assert lease is not None


def test_closed_directory_is_reported_with_the_remedy(unprivileged: DnsmasqHost) -> None:
    closed = unprivileged.settings.confs.parent
    closed.mkdir()
    closed.chmod(0o700)
    (fault,) = unprivileged.driver.problems()
    assert f"chmod o+x {closed}" in fault
    net = make_network()
    failed = unprivileged.put(net).failed
    assert f"chmod o+x {closed}" in str(failed[net.key])
    assert not unprivileged.files(net).directory.exists(), "who cannot be served has nothing"
    closed.chmod(0o755)
    assert unprivileged.driver.problems() == ()
    port = net.tenant()
    assert unprivileged.put(net, port).ok
    assert unprivileged.lease(port) is not None
