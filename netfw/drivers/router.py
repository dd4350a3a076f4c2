"""RouterDriver: runs routers in the kernel of this host, or on a device beside it."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.pipeline_grant import Grant, GrantRequest
from netfw.drivers.router_values import RouterState, RouterStatus
from netfw.model.ids import RouterId


class RouterCapability(Capability):
    """Capabilities of router drivers."""

    HA = "ha"
    """A router can be on several hosts, one of which is active."""
    DISTRIBUTED = "distributed"
    """Routers can be distributed."""


class RouterDriver(HostDriver[RouterId, RouterState]):
    """Runs the routers that are scheduled to this host.

    Called by the workers of the L3 agent, outside any transaction.  A router is never in two calls
    at once; calls for different routers may run in parallel.  Devices are made with the host's
    ``InterfaceDriver``.  Promises beyond those of :class:`HostDriver`:

    1. Instances behind the interfaces reach each other, the destinations of the routes and, with a
       gateway, external networks, with NAT as ``Gateway.snat`` and the address scopes require.
    2. A floating IP works in both directions, and is announced to neighbours once its rules are in
       force.  When it is moved or dropped, the connections over it end.
    3. All NAT and filter rules of one pass are applied at once or not at all; if they are refused,
       the former rules stay in force, and the router fails.
    4. Converging an unchanged state touches nothing: forwarding, translation and established
       connections survive a restart of the driver or the agent.
    5. Interfaces, addresses, routes and floating IPs change in place; unchanged ones lose no
       packet.
    6. A dropped router leaves no namespace, device, process, file or rule.
    7. For a highly available router, singletons run on the active host; the driver sends
       ``RoleChanged`` for every change, and restores the role after a restart.
    8. A process that dies is restarted, and the driver sends ``ProcessDied``.
    9. A mode or feature that the driver does not declare as a capability is ``NotSupported`` for
       that router, and nothing of it is made.
    """

    GROUP: ClassVar[str] = "netfw.router_drivers"
    VERSION: ClassVar[int] = 2
    DRAFT: ClassVar[bool] = True
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

    @abstractmethod
    def grant(self, request: GrantRequest) -> Grant:
        """Grant an extension marks and a chain prefix of its own.  Touches nothing.

        Called for all extensions, in the order of the configuration, before the first
        ``converge``.  The same request twice is one grant, and the same one after a restart.

        :raises NotSupported: the router has nothing of the requested type.
        :raises ConfigError: nothing is left to grant; the text names the present owners.
        """
