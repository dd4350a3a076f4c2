"""Directories that somebody else removes or replaces."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from attrs import evolve

from netfw.model.values.dhcp_option import DhcpOption
from netfw.plan import Update
from netfw.testing.conformance.dhcp.factories import Tenant, make_network, wanted
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.dnsmasq.environment import DnsmasqHost

NTP = (DhcpOption(name="42", value="10.0.0.9"),)
PARTS = ["host", "opts", "addn_hosts", "."]


def gets_its_own(host: DnsmasqHost, tenant: Tenant) -> bool:
    lease = host.lease(tenant)
    return lease is not None and lease.ip == tenant.ip


def restore_from_backup(directory: Path) -> None:
    """Replace a directory by another of the same name that has the same files, of the same age."""
    shutil.copytree(directory, directory.with_name("backup"), symlinks=True)
    shutil.rmtree(directory)
    shutil.move(directory.with_name("backup"), directory)


@pytest.mark.parametrize("part", PARTS)
def test_a_directory_that_was_removed_comes_back_with_the_next_port(
    host: DnsmasqHost, part: str
) -> None:
    net = make_network()
    before, after = net.tenant(20, options=NTP), net.tenant(21, options=NTP)
    assert host.put(net, before).ok
    assert gets_its_own(host, before)
    shutil.rmtree(host.files(net).directory / part)
    assert host.put(after).ok
    for port in (before, after, net.tenant(22)):
        assert host.put(port).ok
        assert gets_its_own(host, port)
    everything = wanted(net, before, after)
    assert host.driver.converge(Update(put=everything, complete=True)).ok
    assert host.driver.present() == everything.keys()


@pytest.mark.parametrize("part", PARTS)
def test_a_directory_that_was_replaced_is_noticed_by_looking(host: DnsmasqHost, part: str) -> None:
    net = make_network()
    port, more = net.tenant(20), net.tenant(21)
    assert host.put(net, port).ok
    restore_from_backup((host.files(net).directory / part).resolve())
    host.restart()
    assert host.put(net, port).ok
    assert host.put(more).ok
    assert gets_its_own(host, port)
    assert gets_its_own(host, more)
    assert str(host.plan(net, port, more)) == "nothing to do"


def test_former_directory_is_served_again_once_the_other_dnsmasq_ends(
    host: DnsmasqHost, tmp_path: Path
) -> None:
    net = make_network()
    port = net.tenant()
    assert host.put(net, port).ok
    first, second = host.settings, evolve(host.settings, confs=tmp_path / "elsewhere")
    host.settings = second
    host.restart()
    assert host.put(net, port).ok
    others = host.pid(net)
    host.settings = first
    host.restart()
    assert "Address already in use" in str(host.put(net, port).failed[net.key])
    os.kill(others, signal.SIGTERM)
    wait_until(lambda: not Path(f"/proc/{others}").exists())
    assert host.put(net, port).ok
    assert host.lease(port) is not None
