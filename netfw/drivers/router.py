"""RouterDriver: runs routers in the kernel of this host, or on a device beside it."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.router_values import (
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterStatus,
)
from netfw.model.values.ids import PortId, RouterId


class RouterCapability(Capability):
    """Capabilities of router drivers."""

    HA = "ha"
    """A router can be on several hosts, one of which is active."""
    DISTRIBUTED = "distributed"
    """Routers can be distributed: local and central parts, agent gateways."""
    PREFIX_DELEGATION = "prefix_delegation"
    """A provider can delegate the prefixes of subnets (``RouterPort.delegated``): promise 17."""


class RouterDriver(HostDriver[RouterDriverKey, RouterDriverValue]):
    """Runs the routers that are scheduled to this host.

    Called by the workers of the L3 agent, outside any transaction.  An update concerns one or
    several routers; calls may run in parallel, and no two at once concern the same router.  A
    floating IP concerns the router of its value and the router that has it now.  An agent gateway
    comes in an update of its own, which may run beside those of routers, but for one that removes
    it: that comes after the floating IPs that use it.  Devices are made with the host's
    ``InterfaceDriver``.  Promises beyond those of :class:`HostDriver`:

    1. Instances behind the interfaces reach each other, the destinations of the routes and, with a
       gateway, external networks, with NAT as ``Gateway.snat`` and the address scopes require.
    2. A floating IP works in both directions, and is announced to neighbours once its rules are in
       force; so is an address of the gateway, or of a contribution.  When one is moved or removed,
       the connections over it end.  The gateway answers for ``RouterContribution.proxied``, too.
    3. The rules of one update of a router are in force together or not at all; a refused rule fails
       its own key (of an extension: ``RouterRule.floating_ip``), and the former rules of that key
       stay.  A rule that names ports concerns packets by these ports alone, and one of a subchain
       those that enter it.  A refused rule with a ``RouterRule.subject`` is left out, and the rest
       is in force.
    4. Converging an unchanged state touches nothing: forwarding, translation and established
       connections survive a restart of the driver or the agent.
    5. Interfaces, addresses, routes and floating IPs change in place; unchanged ones lose no
       packet.
    6. A dropped router leaves no namespace, device, process, file or rule.
    7. Of the hosts of a highly available router that hear each other, one is active; a host that
       is not active neither answers nor forwards nor sends.  An active host stays active when
       another one joins, at updates and at a restart of the driver.  The driver sends
       ``RoleChanged`` for every change, and its status has the role after a restart; that of a
       host which takes no part in the election is ``FAULT``.
    8. A process that dies is restarted, and the driver sends ``ProcessDied``.
    9. A part or feature that the driver does not declare as a capability is ``NotSupported`` for
       its key, and nothing of it is made.
    10. A floating IP whose router has no gateway on this host waits; the update that brings the
        gateway also has the floating IP.  One at a local part waits for the agent gateway to its
        network, and comes again in an update after it.  While the gateway's device is not wired
        (``Device.wired``), its floating IPs have their rules and wait.  When `unwired_ports` of a
        router changes, a driver with ``WATCH`` announces the addresses and sends ``KeysChanged``
        for the router, and for its floating IPs if the port is the gateway; another one announces
        them at the next ``converge``.
    11. Instances reach the metadata proxy at ``RouterState.metadata_port`` by the addresses of the
        metadata service only; nothing else reaches that port.
    12. Subnets with ``ipv6_ra_mode`` are advertised on their interface, with the mode, MTU and name
        servers, from a link-local address that no other router has; a removed prefix is withdrawn.
    13. A part of a router that cannot be had, such as a route whose next hop is on none of its
        networks, is left out: the key fails with ``PartlyInvalid``, which names the part, and
        everything else of the router is in force.
    14. The local part of a distributed router routes between its interfaces on the host of the
        sender, and needs no central part for it.  What an instance sends to other destinations
        leaves, untranslated, for the address of its subnet in ``LocalRouter.snat_addresses``; with
        a floating IP at the local part, it leaves by the agent gateway.
    15. The central part of a distributed router is a router between its ports and the gateway
        (promises 1 and 2), with or without a local part on its host.  It has the contributions; the
        local part has their rules with ``RouterRule.local``, metadata and advertisements.
    16. Routers share the agent gateway of a host to a network: their floating IPs at local parts
        enter and leave by it, without a central part.  A router, part or floating IP that comes or
        goes loses no packet of the others.  A floating IP that is prepared is neither answered for
        nor announced; it is announced when it becomes active.
    17. While a full or central part has a gateway and ports with ``RouterPort.delegated``, the
        driver requests a prefix of 64 bits for each of these subnets, on the active host of a
        highly available router alone.  It sends ``PrefixDelegated`` for each, once after its start
        and at every change, and renumbers nothing itself.  A prefix survives restarts of driver,
        processes and host, a failover, and changes of other subnets.
    """

    GROUP: ClassVar[str] = "netfw.router_drivers"
    VERSION: ClassVar[int] = 2
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability, RouterCapability)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability | RouterCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    @abstractmethod
    def status(self, router: RouterId) -> RouterStatus:
        """Return the router as this host has it now.

        :raises NotFound: it is not on this host.
        :raises BackendUnavailable: the machine does not answer.
        """

    def unwired_ports(self, router: RouterId) -> frozenset[PortId]:
        """Return the ports of a router that the switch has not admitted (``Device.wired``).

        Called after each ``converge``, so its cost should not grow with the number of routers.  The
        default, none: the dataplane does not tell.
        """
        return frozenset()

    @abstractmethod
    def grant(self, request: GrantRequest) -> Grant:
        """Grant an extension marks and a chain prefix of its own.  Touches nothing.

        Called for all extensions, in the order of the configuration, before the first
        ``converge``.  The same request twice is one grant, and the same one after a restart.

        :raises NotSupported: the router has nothing of the requested type.
        :raises ConfigError: nothing is left to grant; the text names the present owners.
        """

    def namespace_of(self, router: RouterId, part: RouterPart) -> str | None:
        """Return the network namespace that a part of *router* has or will have.  Pure.

        Metadata proxies run there, and the dry run shows it.  ``None``, the default: there is none.
        """
        return None
