"""SwitchDriver: connects the ports of this host to their networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.switch_values import SwitchDevice, SwitchFacts, SwitchKey, SwitchValue
from netfw.model.values.ids import PortId


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
    """The switch does its part of distributed routers: router interfaces and host MACs.  The MAC
    address of an interface never leaves a host."""
    SUB_PORTS = "sub-ports"
    """A port can be a VLAN inside the device of another port (``Wiring.subport``)."""


class SwitchDriver(HostDriver[SwitchKey, SwitchValue]):
    """Connects plugged ports to their networks, on this host and across hosts.

    Called by the one thread of the L2 agent's loop, outside any transaction.  The values of each
    key are in :mod:`netfw.drivers.values.switch_values`; a value that does not belong to its key is
    an ``InvalidInput`` for that key.  Promises beyond those of :class:`HostDriver`:

    1. A port that is ``DEAD`` or was never wired neither sends nor receives, whatever the owner of
       its device does.  A ``filtered`` port exchanges traffic only through the firewall in the
       switch.
    2. ``HOLD`` executes everything but the last step: a dead port stays dead, and a live port stays
       live, filtered or not as before, without losing a packet.  ``LIVE`` after ``HOLD`` takes one
       step.
    3. Ports of one network reach each other and no other port; two networks never mix, at any
       moment of any update.
    4. A dropped network leaves no trace, and its local number is free.  A port whose network is
       not present waits for it; a ``DEAD`` port needs no network.
    5. Converging an unchanged state touches nothing: no packet is lost, no flow is replaced, and
       local numbers stay, also after a restart of the driver or the agent.
    6. A port whose device is missing, or has no port number yet, is ``waiting``.  A
       ``KeysChanged`` follows when the device appears, moves, goes, or is changed from outside,
       also for a device that was never wired: dropping its port makes it dead.
    7. After the switch lost its state, the driver sends ``FeedLost``, and converging rebuilds it.
    8. Grants do not overlap and are the same after a restart.  A contribution that leaves its own
       grant, or has a flow that is too long for the switch, is refused, for the port with that
       contribution alone; the error names the owner.
    9. A frame of this host for the MAC of a ``shared_mac`` port reaches that port, and one copy of
       it leaves for other hosts as if the port were not here; a frame of another host reaches that
       port only.  A frame for a MAC with several endpoints goes to each of them once; or only to
       the one from which frames of that MAC came last, if an announcement (gratuitous ARP
       with a target MAC, unsolicited neighbour advertisement) by another one of them changes that
       at once, no frame by a host that is none of them does, and silence does within seconds.
       Changing ``shared_mac`` or the endpoints loses no frame for the receivers that stay.  A
       ``shared_mac`` port sends no report of multicast groups from the unspecified address.
    10. Frames of a router interface (``LocalNetwork.router_interfaces``) reach the ports of all
        hosts with distributed routers from the MAC address of the interface.  Between hosts they
        have that of the sending host (``HostMac``): a frame from the MAC address of an interface
        never leaves its host.
    11. Announcements by a router interface, requests for its addresses and frames for its MAC
        address stay on their host; nothing of other hosts reaches it, except answers to its own
        requests.  These requests leave from the MAC address of the host, and change no neighbour
        entry of a receiver.
    12. A port that is no router interface sends nothing from the MAC address of a host with
        distributed routers, and from that of a router interface nothing to other hosts.
    13. ``forwards`` is ``True`` while a port is live, and while the switch does not answer.
    14. A sub-port (``Wiring.subport``) sends and receives by the device of its parent, under its
        tag, and is otherwise a port like others.  The driver makes the device that ``devices`` has
        for it, while the sub-port is not ``DEAD`` and its parent is plugged, and a ``KeysChanged``
        follows; the device of a dropped sub-port goes.  Frames under other tags, or with a tag
        behind the tag, are dropped.  Adding and removing a sub-port loses no frame of its parent
        and of other sub-ports.
    """

    GROUP: ClassVar[str] = "netfw.switch_drivers"
    VERSION: ClassVar[int] = 2
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability, SwitchCapability)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability | SwitchCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    @abstractmethod
    def devices(self) -> Mapping[PortId, SwitchDevice]:
        """Return the ports that are plugged into this host's switches now, wired or not.

        While the change feed is intact, this sends no request to the switch; looking up one port
        costs the same for any number of ports.  Callers read the mapping at once and drop it.

        :raises BackendUnavailable: the switch does not answer.
        """

    def forwards(self) -> bool:
        """Return whether a packet may pass the switch; ``True`` if in doubt, or without an answer.

        Where none can, as after the switch lost its state, the caller puts filters first and wires
        ports as live at once.  The default is always in doubt.
        """
        return True

    @abstractmethod
    def host_facts(self) -> SwitchFacts:
        """Return what this host offers for port binding, for the agent's state report.

        :raises ConfigError: the configuration contradicts the machine, such as a mapped bridge
            that does not exist; the text says what to change.  The agent stops.
        :raises BackendUnavailable: the switch does not answer.
        """

    @abstractmethod
    def grant(self, request: GrantRequest) -> Grant:
        """Grant an extension tables, register bits and a cookie of its own.  Touches nothing.

        Called for all extensions, in the order of the configuration, before the first
        ``converge``.  The same request twice is one grant.

        :raises NotSupported: the switch has nothing of the requested type.
        :raises ConfigError: nothing is left to grant; the text names the present owners.
        """
