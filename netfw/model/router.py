"""Routers: connections between networks, and to external ones."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from attrs import field, frozen

from netfw.model.common_fields import Named, Status
from netfw.model.ids import FlavorId, NetworkId, QosPolicyId, RouterId
from netfw.model.port import FixedIp
from netfw.model.route import Route
from netfw.model.text_validation import check_host
from netfw.model.validation import Problem, Validated, each, outside, repeated

VRIDS = range(1, 256)
"""Virtual router ids of VRRP: unique among the routers of one HA network."""


class HaRole(enum.StrEnum):
    """The role of one instance of a highly available router."""

    ACTIVE = "active"
    STANDBY = "standby"
    FAULT = "fault"


@frozen(kw_only=True)
class ExternalGateway(Validated):
    """A router's connection to an external network."""

    network_id: NetworkId
    enable_snat: bool = True
    fixed_ips: tuple[FixedIp, ...] = field(default=(), converter=tuple[FixedIp, ...])
    qos_policy_id: QosPolicyId | None = None

    def _problems(self) -> Iterator[Problem]:
        for at in repeated(self.fixed_ips):
            yield f"fixed_ips[{at}]", "is there twice"


@frozen(kw_only=True)
class Router(Named):
    """A router; its interfaces are ports with its id as their device."""

    id: RouterId
    gateway: ExternalGateway | None = None
    routes: tuple[Route, ...] = field(default=(), converter=tuple[Route, ...])
    admin_up: bool = True
    status: Status = Status.ACTIVE
    ha: bool = False
    vrid: int | None = None
    """The virtual router id of a highly available router; only servers and agents exchange it."""
    distributed: bool = False
    availability_zone_hints: tuple[str, ...] = field(
        default=(), converter=tuple[str, ...], validator=each(check_host)
    )
    availability_zones: tuple[str, ...] = field(
        default=(), converter=tuple[str, ...], validator=each(check_host)
    )
    flavor_id: FlavorId | None = None

    def _problems(self) -> Iterator[Problem]:
        for at in repeated(self.routes):
            yield f"routes[{at}]", "is there twice"
        if self.vrid is not None and self.vrid not in VRIDS:
            yield "vrid", outside(self.vrid, VRIDS)
