"""The suite of `FirewallDriver`: subclass it, write an environment, run pytest.

It sends real packets.  Write a ``FirewallEnvironment``, and yield it from the class's fixture
``shared_environment``.  A driver that declares no filtering has to let everything pass.
"""

from __future__ import annotations

from netfw.drivers.base import Driver
from netfw.drivers.firewall import FirewallDriver
from netfw.drivers.host_driver import HostDriver
from netfw.testing.conformance.firewall.anti_spoofing import FirewallAntiSpoofingConformance
from netfw.testing.conformance.firewall.atomic_updates import FirewallUpdatesConformance
from netfw.testing.conformance.firewall.command_injection import FirewallInjectionConformance
from netfw.testing.conformance.firewall.connections import FirewallConnectionsConformance
from netfw.testing.conformance.firewall.rules import FirewallRulesConformance
from netfw.testing.conformance.firewall.side_effects import FirewallSideEffectsConformance
from netfw.testing.conformance.firewall.stateless import FirewallStatelessConformance
from netfw.testing.conformance.firewall.unenforceable_rules import (
    FirewallUnenforceableConformance,
)


class FirewallDriverConformance(
    FirewallRulesConformance,
    FirewallStatelessConformance,
    FirewallConnectionsConformance,
    FirewallAntiSpoofingConformance,
    FirewallUpdatesConformance,
    FirewallInjectionConformance,
    FirewallUnenforceableConformance,
    FirewallSideEffectsConformance,
):
    """The promises of :class:`FirewallDriver`, and of all that it is."""


CONTRACTS = (Driver, HostDriver, FirewallDriver)
"""The contracts that the suite tests, besides `Reconciler` where the driver is one."""
