"""Subscription: the host and services of an agent, for its state source."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from netfw.model.values.text_validation import check_host
from netfw.model.values.validation import checked_by


class Service(enum.StrEnum):
    """A service of an agent for its host; it decides which resources concern the agent."""

    L2 = "l2"
    """Wires and filters the ports bound to the host."""
    POPULATION = "population"
    """Beside ``L2``: locations of other ports of the host's networks, for forwarding entries."""
    DHCP = "dhcp"
    """Serves the networks assigned to the host."""
    L3 = "l3"
    """Runs the routers assigned to the host, and its part of distributed ones."""
    METADATA = "metadata"
    """Identifies the instance of a metadata request.  No resource concerns it: it requests one port
    at a time, when needed."""


AGENT_TYPES: Final[Mapping[str, Service]] = MappingProxyType(
    {
        "Open vSwitch agent": Service.L2,
        "DHCP agent": Service.DHCP,
        "L3 agent": Service.L3,
        "Metadata agent": Service.METADATA,
    }
)
"""The agent types of netfw, each with its service."""


def agent_service(agent_type: str) -> Service:
    """Return the service of agents of that type; agents of vendors are L2 agents."""
    return AGENT_TYPES.get(agent_type, Service.L2)


def _services(services: Iterable[Service]) -> frozenset[Service]:
    return frozenset(services)


@frozen
class Subscription:
    """The host and services of an agent; the source derives the resources that concern them."""

    host: str = field(validator=checked_by(check_host))
    services: frozenset[Service] = field(converter=_services)
