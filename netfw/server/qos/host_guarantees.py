"""Guarantees of QoS policies at the hosts of bound ports.

Whether a guarantee is kept depends on the host, so the driver that bound a port is called again,
with the new rules; its answer is only checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from netfw.drivers.server.mechanism import BindingRequest
from netfw.drivers.values.qos_support import guarantees
from netfw.errors.qos import QosRuleNotSupported
from netfw.model.port import Port
from netfw.model.qos import QosPolicy
from netfw.server.binding.binder import usable_agents
from netfw.server.binding.inactive_bindings import LEVELS
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.heartbeats import agents_on

PortWithExtra = tuple[Port, Mapping[str, Any]]


def binding_driver(extra: Mapping[str, Any]) -> str:
    """Return the mechanism driver that bound a port; empty: none."""
    levels = extra.get(LEVELS) or ()
    return str(levels[-1]["driver"]) if levels else ""


def is_same_everywhere(unit: UnitOfWork, policy: QosPolicy) -> bool:
    """Return whether all drivers enforce *policy* on all hosts: bound ports need no check."""
    uniform = unit.context.qos_support.is_uniform(policy.rules)
    return uniform and not guarantees(policy.rules)


def check_hosts(unit: UnitOfWork, ports: Iterable[PortWithExtra], policy: QosPolicy) -> None:
    """Refuse *policy* if it guarantees what the host of one of *ports* does not keep.

    :raises QosRuleNotSupported: naming the port, its host and the reason.
    """
    bound = [(port, extra) for port, extra in ports if binding_driver(extra)]
    if not bound or not guarantees(policy.rules):
        return
    hosts = {port.binding.host for port, _ in bound}
    agents = usable_agents(unit, agents_on(unit.tx.connection, hosts))
    for port, extra in bound:
        levels = extra[LEVELS]
        chosen = str(levels[-1]["segment_id"])
        segments = unit.segments(port.network_id)
        request = BindingRequest(
            port=port,
            host=port.binding.host,
            network=unit.network(port.network_id),
            segments=tuple(each for each in segments if str(each.id) == chosen),
            agents=agents.get(port.binding.host, ()),
            level=len(levels) - 1,
            qos_rules=policy.rules,
        )
        problem = unit.context.qos_support.host_problem(binding_driver(extra), request)
        if problem is not None:
            raise QosRuleNotSupported(
                f"port {port.id} on host {port.binding.host} cannot enforce QoS policy "
                f"{policy.id}: {problem}"
            )
