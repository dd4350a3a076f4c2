"""Very many ports at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from netfw.errors import OperationRefused
from netfw.plan import Stage, Update
from netfw.testing.conformance.dhcp.factories import a_subnet, make_network, wanted
from netfw_drivers.dnsmasq.plan.reload import BULK
from netfw_drivers.dnsmasq.runtime.executor import DnsmasqExecutor
from tests.lab.backends.dnsmasq.environment import DnsmasqHost


@pytest.mark.spec("DHCP-80")
def test_very_many_ports_more_are_served_without_being_read_one_by_one(host: DnsmasqHost) -> None:
    net = make_network(a_subnet(cidr="10.1.0.0/16", gateway=None))
    first, *more = (net.tenant(10 + number) for number in range(BULK + 2))
    assert host.put(net, first).ok
    pid = host.pid(net)
    assert host.put(*more).ok
    assert host.pid(net) != pid
    for tenant in (first, more[-1]):
        lease = host.lease(tenant)
        assert lease is not None
        assert lease.ip == tenant.ip
    assert not host.plan(net, first, *more)
    pid = host.pid(net)
    assert host.put(net.tenant(9000)).ok
    assert host.pid(net) == pid


def test_served_port_stays_served_when_a_bulk_cannot_be_written(
    host: DnsmasqHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = make_network(a_subnet(cidr="10.1.0.0/16", gateway=None))
    first, *more = (net.tenant(10 + number) for number in range(BULK + 2))
    assert host.put(net, first).ok
    refuse_in(monkeypatch, host.files(net).host)
    outcome = host.driver.converge(Update(put=wanted(*more)))
    assert outcome.failed.keys() == {tenant.key for tenant in more}
    lease = host.lease(first)
    assert lease is not None
    assert lease.ip == first.ip
    monkeypatch.undo()
    assert host.put(*more).ok
    assert host.lease(more[-1]) is not None


def refuse_in(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Refuse changes of very many files for lack of room, but not changes of a few."""
    change = DnsmasqExecutor._change_files

    def change_few(self: DnsmasqExecutor, stage: Stage) -> None:
        if len(stage.operations) > BULK:
            raise OperationRefused(dict.fromkeys(stage.operations, f"{directory}: no room"))
        change(self, stage)

    monkeypatch.setattr(DnsmasqExecutor, "_change_files", change_few)
