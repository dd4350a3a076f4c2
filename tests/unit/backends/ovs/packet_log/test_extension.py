"""Flows of the packet log for the view of a port."""

from __future__ import annotations

import pytest

from netfw import flows as of
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.errors import ConfigError
from netfw.model.packet_log import LogEvent
from netfw_drivers.iptables.driver import IptablesFirewallDriver
from netfw_drivers.ovs.packet_log.extension import PacketLogExtension
from netfw_drivers.ovs.packet_log.plan.log_subject import decode_subject
from netfw_drivers.ovs.pipeline.extension_grants import grant_violation
from tests.unit.backends.ovs.packet_log.samples import (
    GROUP,
    OFPORT,
    OTHER,
    PORT,
    layout,
    log,
    rule,
    view,
)

pytestmark = pytest.mark.spec("FW-14")

EXTENSION = PacketLogExtension("unix:/nowhere", 1.0, None, rate=10, burst=25)


def decisions(*related: object) -> set[tuple[str, str]]:
    """Return the decisions that flows of a port with these resources send to the agent."""
    granted, grant = layout()
    found = EXTENSION.contribute(PORT.id, view(*related), grant)  # type: ignore[arg-type]
    if found is None:
        return set()
    assert grant_violation(found, granted) is None
    sent = [act for flow in found.flows for act in flow.actions]
    subjects = [
        decode_subject(each.userdata) for each in sent if isinstance(each, of.SendToController)
    ]
    assert all(each is not None and each.port == str(PORT.id) for each in subjects)
    return {(each.action.value, each.direction.value) for each in subjects if each is not None}


ACCEPTED = {("ACCEPT", "ingress"), ("ACCEPT", "egress")}
DROPPED = {("DROP", "ingress"), ("DROP", "egress")}


def test_logs_choose_decisions() -> None:
    assert decisions(rule(), log()) == ACCEPTED | DROPPED
    assert decisions(rule(), log(event=LogEvent.DROP)) == DROPPED
    assert decisions(rule(), log(event=LogEvent.ACCEPT)) == ACCEPTED
    both = log(event=LogEvent.DROP), log(32, event=LogEvent.ACCEPT)
    assert decisions(*both) == ACCEPTED | DROPPED


def test_a_port_without_a_log_has_no_flow() -> None:
    assert decisions(rule()) == set()
    for other in (
        log(enabled=False),
        log(resource_id=OTHER),
        log(target_id=PORT.id, resource_id=OTHER),
    ):
        assert decisions(other) == set(), other
    for own in (log(resource_id=GROUP), log(target_id=PORT.id, resource_id=GROUP)):
        assert decisions(own) == ACCEPTED | DROPPED


def test_the_meter_of_the_port_limits_all_packets() -> None:
    _, grant = layout()
    found = EXTENSION.contribute(PORT.id, view(rule(), log()), grant)
    assert found is not None
    sent = [act for flow in found.flows for act in flow.actions]
    limits = {each.limit for each in sent if isinstance(each, of.SendToController)}
    assert limits == {of.PacketLimit(grant.meters[0] + OFPORT, 10, 25)}


def test_an_unnumbered_port_waits() -> None:
    _, grant = layout()
    assert EXTENSION.contribute(PORT.id, view(log(), ofport=None), grant) is None


@pytest.mark.parametrize("has_firewall", [True, False])
def test_a_firewall_outside_the_switch_is_refused(has_firewall: bool) -> None:
    options = {option.dest: option.default for option in PacketLogExtension.OPTIONS}
    with LocalHostResources() as host:
        if has_firewall:
            host.add(IptablesFirewallDriver())
        with pytest.raises(ConfigError, match="firewall_driver = openflow"):
            PacketLogExtension.from_conf(options, host)
