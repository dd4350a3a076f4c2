"""Driver: base of all contracts."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

from attrs import field, frozen

if TYPE_CHECKING:
    from oslo_config.cfg import Opt

T = TypeVar("T")
D = TypeVar("D", bound="Driver")


Contract: TypeAlias = Callable[..., D]
"""A contract as an argument; with ``type[D]`` a type checker would accept concrete classes only."""


class Capability(enum.StrEnum):
    """Base of the capabilities of one contract: features that a driver may have or lack.

    A caller tests for a capability, never for the name of a driver.
    """


C_co = TypeVar("C_co", bound=Capability, covariant=True)


def _capabilities(capabilities: Iterable[C_co]) -> frozenset[C_co]:
    return frozenset(capabilities)


@frozen
class DriverInfo(Generic[C_co]):
    """A driver's name, and the capabilities that it declares."""

    name: str
    capabilities: frozenset[C_co] = field(default=frozenset(), converter=_capabilities)


class HostResources(Protocol):
    """Objects that the drivers of one host share, from ``cli`` or an embedding program."""

    def share(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object shared under *key*; the first call makes it with *make*.

        One OVSDB connection and one OpenFlow connection and mirror per bridge serve all drivers.
        """

    def driver(self, contract: Contract[D]) -> D:
        """Return this host's driver of *contract*: a DHCP driver needs the ``InterfaceDriver``.

        :raises ConfigError: this host has none.
        """


class Driver(ABC):
    """Base of every netfw driver.

    Promises, which the suites of ``netfw.testing.conformance`` test for every contract by watching
    the process and the machine around each call:

    1. Construction, ``from_conf`` and ``describe`` touch no file, socket or process.
    2. ``problems`` changes nothing and raises nothing, not even while the backend is away; each
       problem is a sentence.
    3. ``close`` releases descriptors, threads and child processes, and leaves the machine as it
       is; no repeated call makes their number grow.
    4. The driver leaves the process as it is: signal handlers, umask, environment, working
       directory, locale, root logger and standard streams, to which it writes nothing.
    5. No call waits for more than 20 seconds, unless it raises ``BackendUnavailable``.
    6. Driver objects share what ``HostResources`` shares and nothing else, neither in attributes of
       a class nor in variables of a module.
    7. An option with a secret is declared as secret, and its value is in no description, problem,
       plan or outcome.

    Unless a contract says otherwise, the methods of one driver object are called by one thread at a
    time, and different objects run in parallel.
    """

    GROUP: ClassVar[str]
    """Entry-point group under which drivers of this contract register."""
    VERSION: ClassVar[int]
    """Version of the contract; the loader refuses a driver written for another one."""
    DRAFT: ClassVar[bool] = False
    """Nothing implements the contract yet: it may change without notice, at the same version."""
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = ()
    """Capabilities that a driver of this contract may declare; the loader refuses others."""
    OPTIONS: ClassVar[tuple[Opt, ...]] = ()
    """Options of the driver, shown in the sample configuration and by ``netfw drivers show``."""

    @classmethod
    @abstractmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        """Make a driver from the validated values of its ``OPTIONS``.  Does no I/O.

        :raises ConfigError: the values contradict each other.
        """

    @abstractmethod
    def describe(self) -> DriverInfo[Capability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    def problems(self) -> tuple[str, ...]:
        """Return what this host lacks for the driver, each with its remedy.  Changes nothing."""
        return ()

    def close(self) -> None:  # noqa: B027 - most drivers hold nothing
        """Release connections and threads; leave the machine as it is.  Idempotent."""
