"""MechanismDriver: carries networks and ports to one kind of switch or device, and binds ports."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.base import Capability, Driver, DriverInfo
from netfw.drivers.change import Change
from netfw.model.agent import Agent
from netfw.model.binding import VifDetails
from netfw.model.ids import SegmentId
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.segment import Provider, Segment


@frozen(kw_only=True)
class BindingRequest:
    """A port that is to be bound to a host, at one level of its binding."""

    port: Port
    host: str
    """The one to bind to; during a live migration it is not yet the port's own."""
    network: Network
    segments: tuple[Segment, ...]
    """Those on offer: the network's, or at a lower level the one the level above wanted."""
    agents: tuple[Agent, ...] = ()
    """The agents on that host, dead ones included."""
    level: int = 0


@frozen(kw_only=True)
class Bound:
    """The port is bound."""

    segment: SegmentId
    vif_type: str
    vif_details: VifDetails = field(factory=VifDetails)


@frozen(kw_only=True)
class Partial:
    """Bound so far; below it, the port needs another segment, which the plugin allocates."""

    segment: SegmentId
    wants: Provider


@frozen
class Refused:
    """Not by this driver; a person reads the reason when no driver binds the port."""

    reason: str = field()

    @reason.validator
    def _check(self, _: object, reason: str) -> None:
        if not reason.strip():
            raise ValueError("a refusal says why")


Binding = Bound | Partial | Refused


class MechanismCapability(Capability):
    """Capabilities of mechanism drivers."""

    DELIVERS = "delivers"
    """The driver writes changes to a backend: ``deliver`` is called from the outbox."""


class MechanismDriver(Driver):
    """Carries networks, subnets and ports to a backend, and decides how ports are bound.

    Drivers are asked in the order of the configuration.  All methods may be called from any
    thread, several at once.  Promises:

    1. ``check`` is called in the transaction of the request: no I/O, no waiting, and again when
       the transaction is retried.  Whatever it raises rolls the request back; drivers after it are
       not asked.
    2. ``bind`` is pure: it may be called, thrown away and called again.  It answers with a segment
       that was offered; anything else counts as refused.
    3. ``deliver`` is called from the outbox after the commit, outside any transaction, in one
       ordered lane for each network: ``before`` is what was last delivered (``None``: nothing
       yet), ``after`` the newest state, with the revisions between left out.
    4. ``deliver`` is idempotent, and accepts that what it removes is already gone.  What it raises
       keeps the work in the outbox: it is tried again with growing pauses and can be seen; a
       permanent error waits for a person.  A port that depends on it is not ACTIVE meanwhile.
    5. It keeps no memory that a second server process would need.
    6. ``deliver`` is called only of a driver that declares ``MechanismCapability.DELIVERS``; for
       any other, no change enters the outbox.
    """

    GROUP: ClassVar[str] = "netfw.mechanism_drivers"
    VERSION: ClassVar[int] = 1
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (MechanismCapability,)

    @abstractmethod
    def describe(self) -> DriverInfo[MechanismCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    def validate(self, change: Change) -> None:
        """Accept *change*, or refuse it before it is committed.

        :raises RequestError: it cannot be; the API answers with it.
        """

    @abstractmethod
    def bind(self, request: BindingRequest) -> Binding:
        """Bind the port, bind it partly, or say why not.

        An exception counts as a refusal with its text; the next driver is asked.
        """

    def deliver(self, change: Change) -> None:
        """Make the backend agree with ``change.after``; ``None``: with its absence.

        :raises BackendUnavailable: tried again, with growing pauses.
        :raises NetfwError: kept, shown, and tried again when somebody asks for it.
        """
