"""QoS policies of floating IPs and gateways, which L3 agents enforce by extensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netfw.model.floating_ip import FloatingIp
from netfw.model.l3_extensions import FIP_QOS, GATEWAY_IP_QOS
from netfw.model.resource import Resource
from netfw.model.router import Router
from netfw.model.values.ids import QosPolicyId, RouterId
from netfw.server.core.server_context import Write
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.qos.references import policy_of
from netfw.server.scheduling.missing_l3_extensions import check_extension


def check_policies(unit: UnitOfWork, writes: Sequence[Write]) -> Sequence[Resource]:
    """Refuse policies, and routers of floating IPs with one, that no agent would enforce.

    A :data:`~netfw.server.core.server_context.PrestoreHook`.

    :raises RouterExtensionNotLoaded: an L3 agent lacks the extension that enforces it.
    """
    for router, extension in sorted(set(_needed(writes))):
        check_extension(unit, router, extension)
    return [after for _, after in writes]


def _needed(writes: Sequence[Write]) -> Iterator[tuple[RouterId, str]]:
    """Yield the routers that get something to enforce, with the extension."""
    for before, after in writes:
        if isinstance(after, FloatingIp):
            if after.qos_policy_id is None or after.router_id is None:
                continue
            if not isinstance(before, FloatingIp) or _limited(before) != _limited(after):
                yield after.router_id, FIP_QOS
        elif isinstance(after, Router):
            policy = policy_of(after)
            if policy is not None and policy != policy_of(before):
                yield after.id, GATEWAY_IP_QOS


def _limited(floating: FloatingIp) -> tuple[QosPolicyId | None, RouterId | None]:
    return floating.qos_policy_id, floating.router_id
