"""Attributes of ports that follow from QoS policies.

A resource request says what a host must have for the guarantees of a port's policy: the compute
service chooses a host by it.  The words are those of its inventory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, cast
from uuid import UUID, uuid5

from netfw.drivers.server.query import Query
from netfw.model.qos import AnyDirection, MinimumBandwidth, MinimumPacketRate, QosPolicy, QosRule
from netfw.model.resource import Kind, Ref
from netfw.model.segment import Provider
from netfw.model.values.device_owner import is_trusted
from netfw.server.core.resource_handler import Reader
from netfw.server.db.resources.qos_policies import QosPolicyRows
from netfw.server.db.resources.rows import AT_ONCE

INHERITED: Final = "qos_network_policy_id"
REQUEST: Final = "resource_request"
BANDWIDTH_CLASSES: Final = {
    AnyDirection.EGRESS: "NET_BW_EGR_KILOBIT_PER_SEC",
    AnyDirection.INGRESS: "NET_BW_IGR_KILOBIT_PER_SEC",
}
PACKET_CLASSES: Final = {
    AnyDirection.ANY: "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    AnyDirection.EGRESS: "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    AnyDirection.INGRESS: "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
}
TUNNEL: Final = "CUSTOM_NETWORK_TUNNEL_PROVIDER"
"""Trait of hosts that reach networks through tunnels."""

Bodies = Sequence[MutableMapping[str, Any]]


def add_network_policies(
    reader: Reader, bodies: Bodies, known: Mapping[str, str | None] | None = None
) -> None:
    """Add to ports the policies of their networks, in one statement.

    *known*: the policies of the networks, if the caller has read them.
    """
    if known is None:
        networks = {body["network_id"] for body in bodies}
        known = QosPolicyRows(reader.connection).of_networks(networks)
    for body in bodies:
        body[INHERITED] = known.get(body["network_id"])


def add_resource_requests(reader: Reader, bodies: Bodies) -> None:
    """Add their resource requests to ports, which have the policies of their networks.

    Two statements if some have policies, otherwise none.
    """
    applied: dict[str, str] = {}
    for body in bodies:
        body[REQUEST] = None
        if (body["qos_policy_id"] or body[INHERITED]) and (policy := _applied(body)):
            applied[body["id"]] = policy
    if not applied:
        return
    policies = _guarantees(reader, set(applied.values()))
    concerned = [body for body in bodies if applied.get(body["id"]) in policies]
    providers = _providers(reader, {body["network_id"] for body in concerned})
    for body in concerned:
        body[REQUEST] = resource_request(
            UUID(body["id"]),
            policies[applied[body["id"]]],
            body["binding:vnic_type"],
            providers.get(body["network_id"]),
        )


def _applied(port: Mapping[str, Any]) -> str | None:
    own, inherited = port["qos_policy_id"], port[INHERITED]
    if own or not inherited:
        return cast("str | None", own)
    return None if is_trusted(port["device_owner"]) else cast(str, inherited)


def resource_request(
    port: UUID, rules: Iterable[QosRule], vnic_type: str, provider: Provider | None
) -> dict[str, Any]:
    """Return what a host must have for the guarantees among *rules*."""
    rates = tuple(each for each in rules if isinstance(each, MinimumBandwidth))
    packets = tuple(each for each in rules if isinstance(each, MinimumPacketRate))
    card = _trait(f"VNIC_TYPE_{vnic_type}")
    groups = []
    if rates:
        resources = {
            BANDWIDTH_CLASSES[AnyDirection(each.direction)]: each.min_kbps for each in rates
        }
        groups.append(_group(port, rates, [_reach(provider), card], resources))
    if packets:
        resources = {PACKET_CLASSES[each.direction]: each.min_kpps for each in packets}
        groups.append(_group(port, packets, [card], resources))
    return {"request_groups": groups, "same_subtree": [group["id"] for group in groups]}


def _group(
    port: UUID, rules: Sequence[QosRule], required: list[str], resources: Mapping[str, int]
) -> dict[str, Any]:
    id = uuid5(port, ":".join(str(rule.id) for rule in rules))
    return {"id": str(id), "required": required, "resources": dict(resources)}


def _reach(provider: Provider | None) -> str:
    physical = None if provider is None else provider.physical_network
    return TUNNEL if physical is None else _trait(f"PHYSNET_{physical}")


def _trait(name: str) -> str:
    return "CUSTOM_" + re.sub(r"[^A-Z0-9_]", "_", name.upper())


def _guarantees(reader: Reader, ids: set[str]) -> dict[str, tuple[QosRule, ...]]:
    """Return the rules of the policies with guarantees among *ids*."""
    if not ids:
        return {}
    rows = reader.resources.present(Ref(Kind.QOS_POLICY, UUID(id)) for id in sorted(ids))
    policies = (cast(QosPolicy, row.resource()) for row in rows)
    return {
        str(policy.id): policy.rules
        for policy in policies
        if any(isinstance(rule, MinimumBandwidth | MinimumPacketRate) for rule in policy.rules)
    }


def _providers(reader: Reader, networks: set[str]) -> dict[str, Provider]:
    """Return the first segment of each of *networks*."""
    found: dict[str, Provider] = {}
    wanted = sorted(networks)
    for at in range(0, len(wanted), AT_ONCE):
        query = Query(filters={"network_id": tuple(wanted[at : at + AT_ONCE])})
        for row in reader.resources.find(Kind.SEGMENT, query):
            segment: Any = row.resource()
            found.setdefault(str(segment.network_id), segment.provider)
    return found
