"""MechanismDriver: writes networks and ports to a backend, and binds ports."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.base import Capability, Driver, DriverInfo
from netfw.drivers.server.change import Change
from netfw.drivers.values.qos_support import SupportedQosRule
from netfw.model.agent import Agent
from netfw.model.binding import VifDetails
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import QosRule
from netfw.model.segment import Provider, Segment
from netfw.model.subnet import Subnet
from netfw.model.values.ids import SegmentId


@frozen(kw_only=True)
class BindingRequest:
    """A port to bind to a host, at one level of its binding."""

    port: Port
    host: str
    """The host to bind to; during a live migration it is not yet the host of the port."""
    network: Network
    segments: tuple[Segment, ...]
    """Offered segments: those of the network, or below the first level the one requested above."""
    subnets: tuple[Subnet, ...] = ()
    """The subnets of the network."""
    agents: tuple[Agent, ...] = ()
    """The agents on that host, dead ones included."""
    level: int = 0
    qos_rules: tuple[QosRule, ...] = ()
    """The rules of the QoS policy of the port, or of its network; a driver refuses those that this
    host does not enforce."""


@frozen(kw_only=True)
class Bound:
    """The port is bound."""

    segment: SegmentId
    vif_type: str
    vif_details: VifDetails = field(factory=VifDetails)
    wired: bool = False
    """No agent of the host reports on the port: it counts as wired as soon as it is bound."""


@frozen(kw_only=True)
class Partial:
    """The port is bound at this level; the plugin allocates another segment for the next one."""

    segment: SegmentId
    wants: Provider


@frozen
class Refused:
    """This driver does not bind the port; operators see the reason if no driver does."""

    reason: str = field()

    @reason.validator
    def _check(self, _: object, reason: str) -> None:
        if not reason.strip():
            raise ValueError("a refusal has a reason")


Binding = Bound | Partial | Refused


class MechanismCapability(Capability):
    """Capabilities of mechanism drivers."""

    DELIVERS = "delivers"
    """The driver writes changes to a backend: ``deliver`` is called from the outbox."""


class MechanismDriver(Driver):
    """Writes networks, subnets and ports to a backend, and decides how ports are bound.

    Drivers are called in the order of the configuration.  All methods may be called from any
    thread, several at once.  Promises:

    1. ``validate`` is called in the transaction of the request, and again when the transaction is
       retried: it does no I/O and does not wait.  Its exception rolls the request back, and later
       drivers are not called.
    2. ``bind`` is pure: its result may be discarded, and it may be called again.  It returns an
       offered segment; any other segment counts as refused.
    3. ``deliver`` is called from the outbox after the commit, outside any transaction, in one
       ordered lane for each network: ``before`` is the last delivered state (``None``: none yet),
       ``after`` the newest one; revisions in between are skipped.
    4. ``deliver`` is idempotent, and accepts that what it removes is already gone.  After an
       exception the work stays in the outbox, visible, and is retried with growing back-off; a
       permanent error waits for an operator.  A port that depends on it is not ACTIVE meanwhile.
    5. The driver keeps no state that a second server process would need.
    6. ``deliver`` is called only of a driver that declares ``MechanismCapability.DELIVERS``; for
       any other, no change enters the outbox.
    7. A binding names the type of its VIF; a driver whose ports an agent serves refuses while that
       agent is dead or missing.
    """

    GROUP: ClassVar[str] = "netfw.mechanism_drivers"
    VERSION: ClassVar[int] = 2
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (MechanismCapability,)

    @abstractmethod
    def describe(self) -> DriverInfo[MechanismCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    def validate(self, change: Change) -> None:
        """Accept *change*, or refuse it before it is committed.

        :raises RequestError: the change is impossible; the API returns this error.
        """

    def supported_qos_rules(self) -> tuple[SupportedQosRule, ...] | None:
        """Return the QoS rules that the ports bound by this driver enforce; constant.

        ``None``: the driver binds no ports.  A port with another rule is not bound by this driver.
        """
        return ()

    @abstractmethod
    def bind(self, request: BindingRequest) -> Binding:
        """Bind the port, bind it partly, or refuse with a reason.

        An exception counts as a refusal with its text; the next driver is called.
        """

    def deliver(self, change: Change) -> None:
        """Make the backend agree with ``change.after``; ``None``: with its absence.

        :raises BackendUnavailable: the outbox retries, with growing back-off.
        :raises NetfwError: the work stays in the outbox, visible, until an operator retries it.
        """
