"""AgentExtension: adds something of its own to a switch or a router."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Generic, TypeVar

from netfw.drivers.base import Driver
from netfw.drivers.events import Sink
from netfw.drivers.pipeline_grant import Grant, GrantRequest

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
C = TypeVar("C")


class AgentExtension(Driver, Generic[K, V, C]):
    """Adds to what a switch or router driver holds, without knowing that driver or the agent.

    ``K`` is the key of what is extended, ``V`` what the extension is shown of it, ``C`` what it
    adds.  What it adds goes into the same plan, transaction and clean-up as what it is added to;
    so an extension has nothing to remove, nothing to repair, and no code for a restarted switch.
    Called by one thread at a time, outside any transaction.  Promises:

    1. ``claim`` is constant: the same before and after any other call.
    2. ``contribute`` and ``base`` are pure: equal arguments give equal additions, nothing is
       touched, and the order of calls does not matter.
    3. An addition stays within its grant.
    4. ``KeysChanged`` to the sink asks to be called again for those keys; without it the
       extension is called when what it is shown has changed, and only then.
    5. What ``contribute`` raises concerns that key alone: it is degraded and tried again with
       growing pauses, its former addition stays, all other keys and extensions go on.
    """

    @abstractmethod
    def grant_request(self) -> GrantRequest:
        """What it needs.  Asked once, before the first resource is known.  Raises nothing."""

    @abstractmethod
    def contribute(self, key: K, value: V, grant: Grant) -> C | None:
        """What to add to *key*; ``None``: nothing.

        :raises NetfwError: it cannot be, and why; see promise 5.
        """

    def contribute_base(self, grant: Grant) -> C | None:
        """What to add whatever resources there are, such as the default of a table.

        :raises ConfigError: it cannot be; the agent does not start.
        """
        return None

    def watch(self, sink: Sink) -> None:
        """Announce what the extension learns by itself to *sink*, from any thread, until closed."""
