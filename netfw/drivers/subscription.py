"""Interest: who asks a state source."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from attrs import field, frozen

from netfw.model.text_validation import check_host
from netfw.model.validation import checked_by


class Service(enum.StrEnum):
    """What an agent does for its host; it decides which resources concern the agent."""

    L2 = "l2"
    """Wires and filters the ports bound to the host."""
    POPULATION = "population"
    """Beside ``L2``: where every other port of the host's networks is, for forwarding entries."""
    DHCP = "dhcp"
    """Serves the networks assigned to the host."""
    L3 = "l3"
    """Runs the routers assigned to the host, and its part of distributed ones."""
    METADATA = "metadata"
    """Says which instance asks for metadata.  No resource concerns it: it asks for one port at a
    time, when somebody wants to know."""


def _services(services: Iterable[Service]) -> frozenset[Service]:
    return frozenset(services)


@frozen
class Subscription:
    """Who asks, and for what; which resources that concerns follows from the resources."""

    host: str = field(validator=checked_by(check_host))
    services: frozenset[Service] = field(converter=_services)
