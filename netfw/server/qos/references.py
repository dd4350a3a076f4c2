"""References to QoS policies: of networks, ports, floating IPs and gateways of routers.

They are checked before a resource is stored.  A requester may use, and take away, only policies
that it may see; a new network without a policy gets the default one of its project.  A policy is
refused where one of its rules could not be enforced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard, cast

from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.errors.qos import (
    PolicyRemoveAuthorizationError,
    QosPolicyNotFound,
    QosRuleNotSupported,
    QosRuleNotSupportedByNetwork,
)
from netfw.model.floating_ip import FloatingIp
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import QosPolicy, QosRule, rule_direction, rule_type
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.router import Router
from netfw.model.values.device_owner import is_trusted
from netfw.model.values.ids import QosPolicyId
from netfw.server.core.qos_support import missing_of_routers
from netfw.server.core.server_context import Write
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.resources.qos_policies import QosPolicyRows
from netfw.server.db.resources.row import Row
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.qos.host_guarantees import binding_driver, check_hosts, is_same_everywhere

User = Network | Port | FloatingIp | Router


def resolve_policies(unit: UnitOfWork, writes: Sequence[Write]) -> Sequence[Resource]:
    """Return what is to be stored, with default policies, after all checks of policies.

    :raises QosPolicyNotFound: there is no such policy that the requester may see.
    :raises PolicyRemoveAuthorizationError: the requester may not see the policy that it takes away.
    :raises Conflict: a rule of the policy cannot be enforced there.
    """
    if not writes or not _is_user(writes[0][1]):
        return [after for _, after in writes]
    _check_visible(unit, writes)
    prepared = _with_defaults(unit, writes)
    changed = [
        (before, after, id)
        for (before, _), after in zip(writes, prepared, strict=True)
        if (id := policy_of(after)) is not None and id != policy_of(before)
    ]
    policies = unit.qos_policies(id for _, _, id in changed)
    for before, after, id in changed:
        if id not in policies:
            raise RetryTransaction(f"QoS policy {id} was deleted meanwhile")
        _check_enforced(unit, before, cast(User, after), policies[id])
    return prepared


def policy_of(resource: Resource | None) -> QosPolicyId | None:
    """Return the policy that *resource* itself names."""
    if isinstance(resource, Router):
        return None if resource.gateway is None else resource.gateway.qos_policy_id
    if isinstance(resource, Network | Port | FloatingIp):
        return resource.qos_policy_id
    return None


def check_changed_policy(unit: UnitOfWork, policy: QosPolicy) -> None:
    """Refuse rules of *policy*, as it will be, that something that uses it cannot enforce.

    :raises Conflict: naming the rule and what uses the policy.
    """
    rows = QosPolicyRows(unit.tx.connection)
    for user in rows.users(policy.id, 1):
        if user.kind in (Kind.FLOATING_IP, Kind.ROUTER):
            _refuse(missing_of_routers(policy.rules), policy, user)
        else:
            _refuse(unit.context.qos_support.missing_everywhere(policy.rules), policy, user)
    if not is_same_everywhere(unit, policy):
        for ids in rows.ports(policy.id):
            found = unit.tx.resources.present(Ref(Kind.PORT, id) for id in ids)
            _check_bound(unit, found, policy)


def _is_user(resource: Resource | None) -> TypeGuard[User]:
    return isinstance(resource, Network | Port | FloatingIp | Router)


def _check_visible(unit: UnitOfWork, writes: Sequence[Write]) -> None:
    named = {after for before, after in _policies(writes) if after not in (None, before)}
    removed = set(_removed(writes)) if unit.requester.sees is not None else set()
    if not named and not removed:
        return
    seen = _visible(unit, cast("set[QosPolicyId]", named | removed))
    if missing := sorted(map(str, named - seen)):
        raise QosPolicyNotFound(f"there is no QoS policy {missing[0]} that you may use")
    if foreign := sorted(map(str, removed - seen)):
        raise PolicyRemoveAuthorizationError(
            f"QoS policy {foreign[0]} is not yours: only an administrator may take it away"
        )


def _policies(
    writes: Iterable[Write],
) -> Iterator[tuple[QosPolicyId | None, QosPolicyId | None]]:
    for before, after in writes:
        yield policy_of(before), policy_of(after)


def _removed(writes: Iterable[Write]) -> Iterator[QosPolicyId]:
    """Yield policies that updates take away; another gateway of a router begins without one."""
    for before, after in writes:
        policy = policy_of(before)
        if policy is None or policy_of(after) == policy or _has_other_gateway(before, after):
            continue
        yield policy


def _has_other_gateway(before: Resource | None, after: Resource) -> bool:
    if not isinstance(before, Router) or not isinstance(after, Router):
        return False
    old, new = before.gateway, after.gateway
    return old is None or new is None or old.network_id != new.network_id


def _visible(unit: UnitOfWork, ids: Iterable[QosPolicyId]) -> set[QosPolicyId]:
    wanted, seen = sorted(map(str, ids)), set()
    for at in range(0, len(wanted), AT_ONCE):
        query = Query(filters={"id": tuple(wanted[at : at + AT_ONCE])})
        rows = unit.tx.resources.find(Kind.QOS_POLICY, query, project=unit.requester.sees)
        seen |= {QosPolicyId(row.ref.id) for row in rows}
    return seen


def _with_defaults(unit: UnitOfWork, writes: Sequence[Write]) -> list[Resource]:
    """Give new networks without a policy the default one of their project."""
    plain = {
        after.project_id
        for before, after in writes
        if before is None and _takes_default(after) and after.project_id
    }
    defaults = QosPolicyRows(unit.tx.connection).defaults(plain) if plain else {}
    return [
        evolve(after, qos_policy_id=defaults[after.project_id])
        if before is None and _takes_default(after) and after.project_id in defaults
        else after
        for before, after in writes
    ]


def _takes_default(resource: Resource) -> TypeGuard[Network]:
    return isinstance(resource, Network) and resource.qos_policy_id is None


def _check_enforced(
    unit: UnitOfWork, before: Resource | None, after: User, policy: QosPolicy
) -> None:
    support = unit.context.qos_support
    if isinstance(after, FloatingIp | Router):
        _refuse(missing_of_routers(policy.rules), policy, ref(after))
        return
    driver = binding_driver(unit.extra_of(after)) if isinstance(after, Port) else ""
    if driver:
        _refuse(support.missing(driver, policy.rules), policy, ref(after), driver)
        check_hosts(unit, [(cast(Port, after), unit.extra_of(after))], policy)
        return
    _refuse(support.missing_everywhere(policy.rules), policy, ref(after))
    if isinstance(before, Network) and not is_same_everywhere(unit, policy):
        _check_ports_of(unit, before, policy)


def _check_ports_of(unit: UnitOfWork, network: Network, policy: QosPolicy) -> None:
    """Check the ports of *network* that have no policy of their own, some at a time."""
    of = {"network_id": (str(network.id),), "qos_policy_id": (None,)}
    query = Query(filters=of, limit=AT_ONCE)
    while rows := unit.tx.resources.find(Kind.PORT, query):
        _check_bound(unit, rows, policy)
        query = evolve(query, marker=rows[-1].ref.id)


def _check_bound(unit: UnitOfWork, ports: Iterable[Row], policy: QosPolicy) -> None:
    support = unit.context.qos_support
    concerned = []
    for port in ports:
        inherits = port.body["qos_policy_id"] is None
        if inherits and is_trusted(port.body["device_owner"]):
            continue
        if driver := binding_driver(port.extra):
            _refuse(support.missing(driver, policy.rules), policy, port.ref, driver)
            concerned.append((cast(Port, port.resource()), port.extra))
    check_hosts(unit, concerned, policy)


def _refuse(rule: QosRule | None, policy: QosPolicy, user: Ref, driver: str = "") -> None:
    if rule is None:
        return
    what = f"rule {rule.id} ({rule_type(rule)}, {rule_direction(rule)}) of QoS policy {policy.id}"
    does = f"driver {driver}, which bound it, does not enforce it" if driver else "nothing does"
    error = QosRuleNotSupportedByNetwork if user.kind is Kind.NETWORK else QosRuleNotSupported
    raise error(f"{user} cannot enforce {what}: {does}; use a policy without such a rule")
