"""A driver that is killed at any moment is succeeded by the next."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from netfw.linux import netns
from netfw.model.values.device_names import dhcp_namespace
from netfw.plan import Update
from netfw.testing.conformance.dhcp.factories import ServedNetwork, Tenant, make_network, wanted
from tests.lab.backends.dnsmasq.environment import DnsmasqHost

WORKER = Path(__file__).with_name("driver_process.py")


def killed(host: DnsmasqHost, update: Update[Any, Any], directory: Path, seconds: float) -> bool:
    """Begin *update* in a driver and kill it; return whether it was not done."""
    file = directory / "update"
    file.write_bytes(pickle.dumps(update))
    command = [sys.executable, str(WORKER), host.ovs.remote, str(host.settings.confs), str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "begins\n"
        time.sleep(seconds)  # the moment to die at, not a time to wait for something
        worker.kill()
        return "done" not in worker.stdout.read()


def moved(tenant: Tenant) -> Tenant:
    (fixed,) = tenant.value.fixed_ips
    return tenant.but(fixed_ips=(evolve(fixed, address=fixed.address + 100),))


@pytest.mark.nightly
@pytest.mark.spec("DHCP-40")
def test_whenever_it_is_killed_the_next_one_ends_in_the_same_state(
    host: DnsmasqHost, tmp_path: Path
) -> None:
    on_its_way = 0
    for seconds in (0.0, 0.03, 0.08, 0.2):
        net = make_network()
        ports = [net.tenant(10 + at) for at in range(60)]
        changed: list[ServedNetwork | Tenant] = [
            net.but(mtu=1400),
            *ports[:20],
            *map(moved, ports[20:40]),
        ]
        put: Update[Any, Any] = Update(put=wanted(net, *ports))
        change: Update[Any, Any] = Update(
            put=wanted(*changed), drop=frozenset(port.key for port in ports[40:])
        )
        gone: Update[Any, Any] = Update(drop=frozenset({net.key}))
        for update in (put, change, gone):
            on_its_way += killed(host, update, tmp_path, seconds)
            host.restart()
            assert host.driver.converge(update).ok
            assert not host.driver.plan(update, host.driver.observe(None))
            if update is change:
                host.admit(net)
                lease = host.lease(moved(ports[30]))
                assert lease is not None
                assert lease.ip == ports[30].ip + 100
                assert host.driver.present() == {thing.key for thing in changed}
        assert not host.driver.present()
        assert not host.files(net).directory.exists()
        assert dhcp_namespace(net.id) not in netns.file_names()
    assert on_its_way > 4, "most of them were killed on their way"


@pytest.mark.spec("DHCP-09")
def test_remains_of_a_namespace_are_removed(host: DnsmasqHost) -> None:
    # A driver that is killed between the unmount and the removal of the file leaves this.
    served, gone = make_network(), make_network()
    assert host.put(served).ok
    netns.path_of(dhcp_namespace(gone.id)).touch()
    assert host.driver.gc({served.key}).ok
    assert dhcp_namespace(gone.id) not in netns.file_names()
    assert dhcp_namespace(served.id) in netns.names()
    every: Update[Any, Any] = Update(complete=True, put=wanted(served))
    assert not host.driver.plan(every, host.driver.observe(None))
