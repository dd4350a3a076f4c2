"""RouterDriver: turns one router into state of this host's kernel, or of a device beside it."""

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

    1. Instances behind the interfaces reach each other, the routes' destinations and, with a
       gateway, the world: translated or not as ``Gateway.snat`` and the address scopes say.
    2. A floating IP works both ways; it is announced to the neighbours after its rules are in
       force.  Moved or dropped, the connections over it end.
    3. All NAT and filter rules of one pass go in at once or not at all; when they are refused the
       former ones stay in force, and the router has failed.
    4. Converging again what already is touches nothing: forwarding, translation and established
       connections live on over a restart of the driver or the agent.
    5. Interfaces, addresses, routes and floating IPs are changed in place; what did not change
       loses no packet.
    6. A dropped router leaves no namespace, device, process, file or rule.
    7. Of a highly available router, what must run once runs on the active host; ``RoleChanged``
       tells of every change, and the role is known again after a restart.
    8. A process that dies is started again, and ``ProcessDied`` says so.
    9. A mode or a feature that the driver does not declare as a capability is ``NotSupported`` for
       that router, and nothing of it is made.
    """

    GROUP: ClassVar[str] = "netfw.router_drivers"
    VERSION: ClassVar[int] = 1
    DRAFT: ClassVar[bool] = True
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability, RouterCapability)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability | RouterCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    @abstractmethod
    def status(self, router: RouterId) -> RouterStatus:
        """The router as this host has it now.

        :raises NotFound: it is not here.
        :raises BackendUnavailable: the machine does not answer.
        """

    @abstractmethod
    def grant(self, claim: GrantRequest) -> Grant:
        """Give an extension marks and a chain prefix of its own.  Touches nothing.

        Called for all extensions, in the order of the configuration, before the first
        ``converge``.  The same claim twice is one grant, and the same one after a restart.

        :raises NotSupported: there is no such thing as is claimed.
        :raises ConfigError: nothing is left to give; the text names who has what.
        """
