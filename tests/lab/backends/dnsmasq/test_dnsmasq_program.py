"""What is done when there is no dnsmasq to run."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from netfw.errors import OperationRefused
from netfw.plan import Stage, Update
from netfw.testing.conformance.dhcp.factories import make_network, wanted
from tests.lab.backends.dnsmasq.environment import DnsmasqHost


def broken_command(directory: Path, kind: str) -> str:
    """Return a command that cannot be run: an absent path or name, or a file that is no program."""
    if kind == "name":
        return "dnsmasq-of-nobody"
    path = directory / "dnsmaskk"
    if kind == "file":
        path.write_text("#!/bin/sh\n")
    return str(path)


@pytest.mark.parametrize("kind", ["path", "name", "file"])
def test_what_runs_goes_on_when_the_program_to_run_instead_is_missing(
    host: DnsmasqHost, tmp_path: Path, kind: str
) -> None:
    net = make_network()
    port = net.tenant()
    assert host.put(net, port).ok
    pid, stamps = host.pid(net), host.stamps(net)
    well = host.settings
    host.settings = evolve(well, command=broken_command(tmp_path, kind))
    host.restart()
    outcome = host.driver.converge(Update(put=wanted(net, port), complete=True))
    assert outcome.failed.keys() == {net.key}
    assert host.pid(net) == pid
    assert host.stamps(net) == stamps
    why = str(outcome.failed[net.key])
    assert host.settings.command in why
    assert "dnsmasq_command" in why
    assert "--conf-file" not in why
    assert host.lease(port) is not None
    host.settings = well
    host.restart()
    assert host.put(net, port).ok
    assert host.pid(net) == pid


def test_nothing_is_made_for_a_network_that_no_program_can_serve(host: DnsmasqHost) -> None:
    host.settings = evolve(host.settings, command="dnsmasq-of-nobody")
    host.restart()
    net = make_network()
    plan = host.plan(net)
    stages: list[Stage] = []
    with pytest.raises(OperationRefused, match="dnsmasq_command"):
        host.driver.apply(plan, stages.append)
    assert stages == []
    assert host.driver.present() == frozenset()
    outcome = host.put(net, net.tenant())
    assert "there is no command dnsmasq-of-nobody" in str(outcome.failed[net.key])
    assert host.driver.present() == frozenset()
