"""Handlers of metering labels and their rules, and their service plugin.

No agent counts traffic: every label says so in its status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, ClassVar, Final, Self
from uuid import UUID

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import InvalidInput
from netfw.errors.metering import MeteringLabelNotFound, MeteringLabelRuleOverlaps
from netfw.model.values.address import IpNetwork
from netfw.model.values.common_fields import Status
from netfw.server.core.disjoint_prefixes import DisjointPrefixes
from netfw.server.core.document_handler import DocumentHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.vendor_resources import VendorResources

LABEL: Final = "metering_label"
RULE: Final = "metering_label_rule"
LABEL_ID: Final = "metering_label_id"
PREFIXES: Final = ("remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix")
NOT_COUNTED: Final = {
    "status": Status.DOWN.value,
    "status_reason": "no agent of this server counts traffic",
}


class MeteringLabelHandler(DocumentHandler):
    """Metering labels; their rules are deleted with them."""

    def __init__(self) -> None:
        super().__init__(LABEL, shareable=True)

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        return self._derived(unit.tx, super().create(unit, bodies))

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        (after,) = self._derived(unit.tx, [super().update(unit, id, body, revision)])
        return after

    def do_delete(self, unit: UnitOfWork, before: Body) -> None:
        rules = VendorResources(unit.tx.connection, RULE)
        for rule in rules.find({"parent_id": [str(before["id"])]}):
            rules.delete(UUID(rule["id"]))
        super().do_delete(unit, before)

    def _derived(self, reader: Reader, bodies: Sequence[Body]) -> tuple[Body, ...]:
        return tuple({**each, **NOT_COUNTED} for each in bodies)


class MeteringLabelRuleHandler(DocumentHandler):
    """Rules of metering labels; each has the project of its label, and is shared as the label."""

    def __init__(self, labels: MeteringLabelHandler) -> None:
        super().__init__(RULE, parent=LABEL_ID, shareable=True)
        self._labels = labels

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        for body in bodies:
            _check_prefixes(body)
        ids = sorted({str(body[LABEL_ID]) for body in bodies})
        labels = {id: self._own_label(unit, id) for id in ids}
        stored = VendorResources(unit.tx.connection, RULE)
        prefixes = {
            id: RemotePrefixes(stored.find({"parent_id": [label["id"]]}))
            for id, label in labels.items()
        }
        made = []
        for body in bodies:
            id = str(body[LABEL_ID])
            prefixes[id].add(body)
            label = labels[id]
            made.append({**body, "project_id": label["project_id"], "shared": label["shared"]})
        return super().create(unit, made)

    def _own_label(self, unit: UnitOfWork, id: str) -> dict[str, Any]:
        label = self._labels.get_for_update(unit, id)
        if unit.requester.sees not in (None, label["project_id"]):
            raise MeteringLabelNotFound(f"there is no metering label {label['id']} of yours")
        return label


class MeteringPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin of metering labels and their rules."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        labels = MeteringLabelHandler()
        super().__init__(context, (labels, MeteringLabelRuleHandler(labels)))

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("metering")


def _check_prefixes(body: Body) -> None:
    """Refuse a rule with no prefix, with two of a kind, or of two IP versions."""
    remote, *ends = PREFIXES
    given = [name for name in PREFIXES if body.get(name)]
    if not given:
        raise InvalidInput({remote: f"is required, or {' or '.join(ends)}"})
    if remote in given and len(given) > 1:
        raise InvalidInput({remote: f"cannot be given beside {' and '.join(given[1:])}"})
    if len({ip_network(str(body[name])).version for name in given}) > 1:
        raise InvalidInput({given[1]: f"is of another IP version than {given[0]}"})


class RemotePrefixes:
    """The remote prefixes of one label; those of one direction do not overlap."""

    def __init__(self, rules: Iterable[Mapping[str, Any]]) -> None:
        self._prefixes: dict[tuple[Any, ...], DisjointPrefixes] = {}
        for rule in rules:
            if rule.get(PREFIXES[0]):
                prefix, others = self._of(rule)
                others.add(prefix, f"rule {rule['id']}")

    def add(self, rule: Mapping[str, Any]) -> None:
        """Add the prefix of *rule*, which is new.

        :raises MeteringLabelRuleOverlaps: it overlaps with that of another rule.
        """
        if not rule.get(PREFIXES[0]):
            return
        prefix, others = self._of(rule)
        if found := others.find_overlap(prefix):
            other, owner = found
            raise MeteringLabelRuleOverlaps(f"{prefix} overlaps with {other} of {owner}")
        others.add(prefix, "another rule of the request")

    def _of(self, rule: Mapping[str, Any]) -> tuple[IpNetwork, DisjointPrefixes]:
        """Return the prefix of *rule*, and those that it must not overlap with."""
        prefix = ip_network(str(rule[PREFIXES[0]]))
        alike = prefix.version, rule["direction"], rule["excluded"]
        return prefix, self._prefixes.setdefault(alike, DisjointPrefixes())
