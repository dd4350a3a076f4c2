"""SwitchDriver: joins the ports of this host to their networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.pipeline_grant import Grant, GrantRequest
from netfw.drivers.switch_values import SwitchDevice, SwitchFacts, SwitchKey, SwitchValue
from netfw.model.ids import PortId


class SwitchCapability(Capability):
    """Capabilities of switch drivers."""

    TUNNELS = "tunnels"
    """The switch connects hosts by tunnels."""
    POPULATION = "population"
    """The switch takes forwarding entries instead of learning them."""
    FLOWS = "flows"
    """Extensions can add OpenFlow flows."""
    IN_SWITCH = "in-switch"
    """A firewall can filter inside the switch; no packet bypasses it."""
    DISTRIBUTED = "distributed"
    """Draft: may change without notice.  The switch does its part of distributed routers."""


class SwitchDriver(HostDriver[SwitchKey, SwitchValue]):
    """Joins ports, whoever plugged them, to their networks on this host and across hosts.

    Called by the one thread of the L2 agent's loop, outside any transaction.  What a key means and
    which value belongs to it is told in :mod:`netfw.drivers.switch_values`; a value that does
    not fit its key is an ``InvalidInput`` for that key.  Promises beyond those of
    :class:`HostDriver`:

    1. Nothing passes to or from a port that is ``DEAD``, or that nobody wired yet, whatever its
       device's owner does; nor one that is ``filtered``, but by the firewall in the switch.
    2. ``HOLD`` makes everything but the last step: a port that was dead stays dead, one that was
       live stays live, filtered or not as it was, without losing a packet.  ``LIVE`` after
       ``HOLD`` takes one step.
    3. Ports of one network reach each other and nobody else; two networks never mix, at any
       moment of any update.
    4. A network that was dropped gives back its local number and every trace of it.  A port whose
       network is not held waits for it; a ``DEAD`` one needs none.
    5. Converging again what already is touches nothing: no packet is lost, no flow is replaced,
       local numbers stay, also after the driver or the agent was restarted.
    6. A port whose device is not there, or that the switch has not numbered yet, is ``waiting``;
       a ``KeysChanged`` follows when it has come, moved, gone, or was changed by somebody else,
       also for a device that nobody wired: dropping its port makes it dead.
    7. After the switch lost its state, a ``FeedLost`` says so, and converging rebuilds it.
    8. Grants do not overlap and are the same after a restart; what an addition puts outside its
       own grant is refused, for the port that has the addition alone.
    """

    GROUP: ClassVar[str] = "netfw.switch_drivers"
    VERSION: ClassVar[int] = 1
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability, SwitchCapability)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability | SwitchCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    @abstractmethod
    def devices(self) -> Mapping[PortId, SwitchDevice]:
        """The ports that are plugged into this host's switches now, wired or not.

        Costs no request to the switch while its change feed is intact; looking up one port in it
        costs the same however many there are.  It is read at once, not kept.

        :raises BackendUnavailable: the switch does not answer.
        """

    @abstractmethod
    def host_facts(self) -> SwitchFacts:
        """What this host offers to whoever binds ports to it; for the agent's state report.

        :raises ConfigError: the configuration contradicts the machine, such as a mapped bridge
            that does not exist; the text says what to change.  The agent stops.
        :raises BackendUnavailable: the switch does not answer.
        """

    @abstractmethod
    def grant(self, claim: GrantRequest) -> Grant:
        """Give an extension tables, register bits and a cookie of its own.  Touches nothing.

        Called for all extensions, in the order of the configuration, before the first
        ``converge``.  The same claim twice is one grant.

        :raises NotSupported: the switch has no such thing as is claimed.
        :raises ConfigError: nothing is left to give; the text names who has what.
        """
