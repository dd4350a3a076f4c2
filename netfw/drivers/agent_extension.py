"""AgentExtension: base of the extensions of switches and routers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Generic, TypeVar

from netfw.drivers.base import Driver
from netfw.drivers.values.events import Sink
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
C = TypeVar("C")


class AgentExtension(Driver, Generic[K, V, C]):
    """Extends the state of a switch or router driver, independent of the driver and the agent.

    ``K`` is the key of the extended object, ``V`` its view for the extension, ``C`` the
    contribution.  A contribution is part of the same plan, transaction and clean-up as the object
    that it extends; so an extension has nothing to remove or repair, and no code for a restarted
    switch.  Called by one thread at a time, outside any transaction.  Promises:

    1. ``grant_request`` is constant: the same before and after any other call.
    2. ``contribute`` and ``contribute_base`` are pure: equal arguments give equal contributions,
       nothing is touched, and the order of calls does not matter.
    3. A contribution stays within its grant.
    4. After ``KeysChanged`` to the sink, the extension is called again for those keys; otherwise it
       is called when the view of a key has changed, and only then.
    5. An exception of ``contribute`` concerns that key alone: the key is degraded and retried with
       growing back-off, its former contribution stays, all other keys and extensions go on.
    """

    @abstractmethod
    def grant_request(self) -> GrantRequest:
        """Return the needs of the extension.  Called once, before all resources.  Never raises."""

    @abstractmethod
    def contribute(self, key: K, value: V, grant: Grant) -> C | None:
        """Return the contribution to *key*, or ``None``.

        :raises NetfwError: it is impossible, with the reason; see promise 5.
        """

    def contribute_base(self, grant: Grant) -> C | None:
        """Return the contribution that depends on no resource, such as the default of a table.

        :raises ConfigError: it is impossible; the agent does not start.
        """
        return None

    def watch(self, sink: Sink) -> None:
        """Announce changes that the extension detects to *sink*, from any thread, until closed."""
